-- Have other sessions see what this transaction sees, as long as it lasts.
-- Locks nothing; returns one row: the snapshot's name, and a time before it was taken, in microseconds since 1970.
select
    pg_export_snapshot() as snapshot,
    (extract(epoch from transaction_timestamp()) * 1000000)::bigint as began
