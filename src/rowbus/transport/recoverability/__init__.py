"""Recoverability: what becomes of failed messages, and the error queue."""
