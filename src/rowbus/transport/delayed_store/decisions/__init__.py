"""Decisions about delayed messages in a store: when to look again, and what a failure becomes."""
