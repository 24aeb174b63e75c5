"""Limits: how many messages an endpoint, a handler or a key may have in a span of time, or at a time."""
