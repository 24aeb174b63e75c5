-- List the sessions that have a table locked, or wait for a lock on it. Locks nothing. Returns one line of text; NULL
-- if there are none.
create or replace function pgq._table_lockers(i_table text)
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp
as $$
    select string_agg(
        format('backend %s (%s) has %s since %s',
            l.pid, coalesce(nullif(a.application_name, ''), a.usename), l.mode, a.xact_start::timestamptz(0)),
        ', ' order by a.xact_start, l.pid, l.mode
    )
    from pg_locks as l
    left join pg_stat_activity as a on a.pid = l.pid
    where l.locktype = 'relation' and l.relation = to_regclass(i_table)
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.pid is distinct from pg_backend_pid()
$$;
revoke execute on function pgq._table_lockers(text) from public;
grant execute on function pgq._table_lockers(text) to pgq_admin;
