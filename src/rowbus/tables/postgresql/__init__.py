"""The tables of endpoints in PostgreSQL; `rowbus.tables.messaging` makes them from addresses.

Invariant: the shapes are those of NServiceBus's PostgreSQL transport; its endpoints may use the same tables.
"""
