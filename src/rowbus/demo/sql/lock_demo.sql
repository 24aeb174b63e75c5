-- Take the right to run the demo in this database until the session ends; never waits.
-- Returns one row: whether we have it. (The number is "rowbus d" in hexadecimal.)
select pg_try_advisory_lock(x'726f776275732064'::bigint) as locked
