"""A stand-in for SQL Server and its driver: our T-SQL, interpreted on the tests' PostgreSQL.

No SQL Server runs on the machines we develop on. So that the Python side runs all the same, in every test run, this
package has the face of `mssql-python` (`driver.py`), takes batches apart as a server would (`tokens.py`,
`batches.py`), runs their control flow itself (`running.py`, in a session: `machine.py`) and rewrites each query to
PostgreSQL's SQL (`rewriting.py`), on a schema `sys` that looks like SQL Server's catalogue (`server.sql`).

It proves what Python does: the order of calls, parameters, transactions, threads, cancellation, errors. It does not
prove T-SQL: that a statement runs here says nothing of SQL Server, where locks, types and the planner are others'.
For that there is `ROWBUS_TEST_SQLSERVER`.

It is frozen: it serves the Python side and grows no further. Where it and the engines disagree:

* its names are as they were written; Babelfish lists those of tables in small letters;
* `object_id` sees every table; Babelfish's only those that the login may select from;
* its `@@version` names no Babelfish in either flavour, so receivers do not take turns on it;
* `sp_getapplock` may be refused any number of times; Babelfish's server ends after many refusals in one session;
* error 266 (another number of transactions at the end of a prepared batch) is not raised;
* `case` on NULL arithmetic (`sign(1 + null)`) is PostgreSQL's.

Two flavours: `SQL_SERVER` honours table hints (READPAST skips, UPDLOCK locks) and speaks in SQL Server's words;
`BABELFISH` ignores hints, so that a contended receive waits, and speaks in PostgreSQL's, as Babelfish does.
"""
