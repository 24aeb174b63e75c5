"""Decisions of the log source: how much a micro-batch admits, and how its range is split."""
