"""Consumers: batches of events, their handlers, their verdicts."""
