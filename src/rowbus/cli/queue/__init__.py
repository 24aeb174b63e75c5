"""`rowbus queue`: create, list, send, peek, purge."""
