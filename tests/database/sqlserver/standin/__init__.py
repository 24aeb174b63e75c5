"""A stand-in for SQL Server and its driver: our T-SQL, interpreted on the tests' PostgreSQL.

No SQL Server runs on the machines we develop on. So that the Python side runs all the same, in every test run, this
package has the face of `mssql-python` (`driver.py`), takes batches apart as a server would (`tokens.py`,
`batches.py`), runs their control flow itself (`running.py`, in a session: `machine.py`) and rewrites each query to
PostgreSQL's SQL (`rewriting.py`), on a schema `sys` that looks like SQL Server's catalogue (`server.sql`).

It proves what Python does: the order of calls, parameters, transactions, threads, cancellation, errors. It does not
prove T-SQL: that a statement runs here says nothing of SQL Server, where locks, types and the planner are others'.
For that there is `ROWBUS_TEST_SQLSERVER`.

Two flavours: `SQL_SERVER` honours table hints (READPAST skips, UPDLOCK locks) and speaks in SQL Server's words;
`BABELFISH` ignores hints, so that a contended receive waits, and speaks in PostgreSQL's, as Babelfish does.
"""
