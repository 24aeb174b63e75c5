"""Work that takes long: messages whose handlers run outside of any transaction, each held by a lease."""
