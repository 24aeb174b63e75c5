"""The only layer that knows a database driver.

What it gives upwards: connections, statements made of `.sql` files, our own errors instead of the driver's, and
an embedded server for machines that have none. Invariant: nothing of psycopg leaves this package.
"""
