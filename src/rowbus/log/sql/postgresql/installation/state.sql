-- Describe what there is of the schema pgq: whether it exists, the extension it belongs to (version, or NULL), the
-- table of our version, and its tables of PgQ.
-- Locks nothing; returns one row.
select
    to_regnamespace('pgq') is not null as is_there,
    (
        select extversion
        from pg_extension
        where extname = 'pgq'
    ) as extension,
    to_regclass('pgq.schema_version') is not null as is_ours,
    to_regclass('pgq.queue') is not null as has_queues
