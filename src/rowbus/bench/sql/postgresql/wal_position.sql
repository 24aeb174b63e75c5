-- Say how many bytes of WAL the server has written since its beginning, those of others too.
-- Locks nothing; returns one row.
select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint as bytes
