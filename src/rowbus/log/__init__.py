"""The event log: append, tick, consume, capture."""
