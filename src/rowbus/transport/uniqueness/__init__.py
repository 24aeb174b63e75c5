"""Unique sends: of the messages for a queue that have one value, one exists at a time."""
