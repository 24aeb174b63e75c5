"""Delayed delivery through a store: the protocol, the poller, the stores that ship with Rowbus."""
