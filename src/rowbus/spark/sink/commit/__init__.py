"""The commit of a micro-batch: what tasks stage or prepare, published once, by the ledger."""
