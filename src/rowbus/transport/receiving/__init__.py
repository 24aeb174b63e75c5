"""Receiving: from a queue's rows to processed messages."""
