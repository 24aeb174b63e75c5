"""Gauges of a whole database: its queues, its delayed messages, its logs and their consumers."""
