-- List what PgQ wants done now: a function's name, or `vacuum`, or `vacuum analyze`, and its argument or NULL.
-- Locks nothing. Returns a row an operation.
select
    o.func_name,
    o.func_arg
from pgq.maint_operations() as o
