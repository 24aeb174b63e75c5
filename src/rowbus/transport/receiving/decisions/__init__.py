"""Decisions of a receiver: pure functions and values, with the clock passed in."""
