"""Rate limits: how many messages an endpoint, a handler or a key may have in a span of time, in all instances."""
