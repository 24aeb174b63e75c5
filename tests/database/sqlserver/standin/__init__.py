"""A stand-in for SQL Server and its driver: our T-SQL, interpreted on the tests' PostgreSQL.

It is for the Python side alone, where no engine is at hand: the order of calls, parameters, transactions, threads,
cancellation, what becomes of errors. So it has the face of `mssql-python` (`driver.py`), takes batches apart
(`tokens.py`, `batches.py`), runs their control flow (`running.py`, in a session: `machine.py`) and rewrites each query
(`rewriting.py`), on a schema `sys` like SQL Server's catalogue (`server.sql`). It knows the T-SQL that Rowbus sends and
no more, and proves none of it: locks, types, plans and the catalogue are the engine's, and `make test-sqlserver` shows
them on one, Babelfish for example. What is shown there needs no place here.
"""
