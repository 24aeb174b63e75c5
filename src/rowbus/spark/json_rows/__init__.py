"""Typed rows: the columns of a user's schema, decoded from JSON bodies."""
