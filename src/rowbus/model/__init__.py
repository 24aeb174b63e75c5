"""Values and decisions: addresses, headers, messages, what to do after a failure.

Invariant: standard library only, no I/O, no clock of its own; the same input always gives the same answer.
"""
