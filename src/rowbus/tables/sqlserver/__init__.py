"""The tables of SQL Server, in the shape that NServiceBus's SQL Server transport and MSMQ store give them.

Invariant: the words of the wire (`RowVersion`, `Due`) stop here and in the `.sql` files.
"""
