"""Delayed messages: what is due when, one message, cancel it, send it now."""
