-- Open a cursor over the events of an open batch and read the first of them; a FETCH reads on, in the same transaction.
-- Locks nothing; returns at most i_quick_limit events; nothing, and no cursor, if an argument is NULL.
create or replace function pgq.get_batch_cursor(
    i_batch_id bigint,
    i_cursor_name text,
    i_quick_limit int4,
    out ev_id bigint,
    out ev_time timestamptz,
    out ev_txid bigint,
    out ev_retry int4,
    out ev_type text,
    out ev_data text,
    out ev_extra1 text,
    out ev_extra2 text,
    out ev_extra3 text,
    out ev_extra4 text
)
returns setof record
language plpgsql
strict
as $$
begin
    return query
    select e.* from pgq.get_batch_cursor(i_batch_id, i_cursor_name, i_quick_limit, null) as e;
end;
$$;

-- The same for the events for which `i_extra_where` holds, a condition on their columns. It becomes part of the query as it
-- is, with the rights and the search path of the caller; so this function pins none, and qualifies its names instead.
create or replace function pgq.get_batch_cursor(
    i_batch_id bigint,
    i_cursor_name text,
    i_quick_limit int4,
    i_extra_where text,
    out ev_id bigint,
    out ev_time timestamptz,
    out ev_txid bigint,
    out ev_retry int4,
    out ev_type text,
    out ev_data text,
    out ev_extra1 text,
    out ev_extra2 text,
    out ev_extra3 text,
    out ev_extra4 text
)
returns setof record
language plpgsql
as $$
declare
    v_sql pg_catalog.text;
begin
    if i_batch_id is null or i_cursor_name is null or i_quick_limit is null then
        return;
    end if;
    v_sql := pgq.batch_event_sql(i_batch_id);
    if i_extra_where is not null then
        v_sql := pg_catalog.format(
            'select * from (%s) as _evs where %s order by 1', pg_catalog.regexp_replace(v_sql, ' order by 1$', ''), i_extra_where
        );
    end if;
    execute pg_catalog.format('declare %I no scroll cursor for %s', i_cursor_name, v_sql);
    if i_quick_limit operator(pg_catalog.>) 0 then
        return query execute pg_catalog.format('fetch %s from %I', i_quick_limit, i_cursor_name);
    end if;
end;
$$;
