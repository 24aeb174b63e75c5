"""Queues: their tables, their shape, and how they are created."""
