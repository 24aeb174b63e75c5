"""The shop's tables and queues."""
