-- Write insert_event_raw(): a search by name among the queues that have their own function, and the long way for the
-- others. Run whenever a queue comes, goes or is renamed.
-- Waits for others who do that, until the end of the transaction; returns how many queues it knows.
create or replace function pgq._generate_dispatch()
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_names text[];
    v_ids int4[];
begin
    perform pgq._lock_definitions();
    select
        coalesce(array_agg(q.queue_name order by q.queue_name collate "C"), '{}'),
        coalesce(array_agg(q.queue_id order by q.queue_name collate "C"), '{}')
    into v_names, v_ids
    from pgq.queue as q
    where exists (
        select from pg_proc as f
        where f.pronamespace = 'pgq'::regnamespace and f.proname = 'insert_event_' || q.queue_id
    );
    execute format(
        $template$
create or replace function pgq.insert_event_raw(
    queue_name text, ev_id int8, ev_time timestamptz, ev_owner int4, ev_retry int4,
    ev_type text, ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
returns int8
language plpgsql
as %L
        $template$,
        e'begin\n'
        || pgq._dispatch_branch(v_names, v_ids)
        || e'return pgq._insert_event_checked($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, null);\nend;\n'
    );
    return cardinality(v_names);
end;
$$;
revoke execute on function pgq._generate_dispatch() from public;
