"""PostgreSQL through psycopg 3: connections, faults, and the transaction a message is received in.

Invariant: with its parent `database`, the only code that imports the driver; none of the driver's errors leave it.
"""
