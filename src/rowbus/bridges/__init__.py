"""Bridges between queues and logs."""
