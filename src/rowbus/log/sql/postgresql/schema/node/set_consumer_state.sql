-- Note how a consumer that writes here is doing. Each locks the consumer's state until the transaction ends.
-- set_consumer_completed: the last tick it has committed here, which also clears its error; 100, or 404 if unknown.
-- set_consumer_error: why it failed; 100, or 101 if unknown. set_consumer_uptodate: that it has seen the last change of
-- its state; 200, or 404.
create or replace function pgq_node.set_consumer_completed(
    in i_queue_name text,
    in i_consumer_name text,
    in i_tick_id int8,
    out ret_code int4,
    out ret_note text
)
returns record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    with known as (
        update pgq_node.local_state as s set last_tick_id = i_tick_id, cur_error = null
        where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name
        returning 'Consumer ' || i_consumer_name || ' completed tick = ' || i_tick_id as note
    )
    select 100, known.note from known
    union all
    select 404, 'Consumer not known: ' || i_queue_name || '/' || i_consumer_name where not exists (select from known);
$$;

create or replace function pgq_node.set_consumer_error(
    in i_queue_name text,
    in i_consumer_name text,
    in i_error_msg text,
    out ret_code int4,
    out ret_note text
)
returns record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    with known as (
        update pgq_node.local_state as s set cur_error = i_error_msg
        where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name
        returning 'Consumer ' || i_consumer_name || ' error = ' || i_error_msg as note
    )
    select 100, known.note from known
    union all
    select 101, 'Consumer not known, ignoring: ' || i_queue_name || '/' || i_consumer_name where not exists (select from known);
$$;

create or replace function pgq_node.set_consumer_uptodate(
    in i_queue_name text,
    in i_consumer_name text,
    in i_uptodate boolean,
    out ret_code int4,
    out ret_note text
)
returns record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    with known as (
        update pgq_node.local_state as s set uptodate = i_uptodate
        where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name
        returning 'Consumer uptodate = ' || i_uptodate::int4 as note
    )
    select 200, known.note from known
    union all
    select 404, 'Consumer not known: ' || i_queue_name || '/' || i_consumer_name where not exists (select from known);
$$;
