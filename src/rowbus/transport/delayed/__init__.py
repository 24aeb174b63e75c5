"""Delayed delivery: the table of delayed messages, and its mover."""
