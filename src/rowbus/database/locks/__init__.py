"""Locks of a session that make a process the only one of its kind: their names, and who holds them."""
