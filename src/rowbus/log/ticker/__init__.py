"""Ticks: when a log gets one, and the upkeep of logs."""
