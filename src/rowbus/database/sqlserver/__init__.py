"""SQL Server through Microsoft's mssql-python: sessions, faults, and the transaction a message is received in.

Invariant: the driver is imported only when a connection is made, and none of its errors leave this package.
"""
