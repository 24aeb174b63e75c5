-- List the open transactions of this database that have written and began before a transaction id: those of sessions,
-- and prepared ones. Locks nothing; must be called by a transaction that has an id, from which ages are counted.
-- Returns one line of text, the oldest first; NULL if there are none.
create or replace function pgq._old_writers(i_before bigint)
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp
as $$
    select string_agg(w.description, ', ' order by w.since)
    from (
        select
            a.xact_start as since,
            a.backend_xid as xid,
            format('backend %s (%s) in a transaction since %s',
                a.pid, coalesce(nullif(a.application_name, ''), a.usename), a.xact_start::timestamptz(0)) as description
        from pg_stat_activity as a
        where a.datname = current_database() and a.pid <> pg_backend_pid()
        union all
        select p.prepared, p.transaction, format('prepared transaction %s since %s', p.gid, p.prepared::timestamptz(0))
        from pg_prepared_xacts as p
        where p.database = current_database()
    ) as w
    where txid_current() - age(w.xid) <= i_before
$$;
revoke execute on function pgq._old_writers(bigint) from public;
grant execute on function pgq._old_writers(bigint) to pgq_admin;
