"""Requests: messages whose sender waits for the answer, in a queue of its own that goes when it goes."""
