-- Say whether a queue has its first event and a tick did not see it. A sequence says 1 both before and after its first
-- use, and so do PgQ's ticks. The first event therefore cannot be counted; this looks for it until there is a second.
-- Locks nothing.
create or replace function pgq._first_event_waits(i_queue_id int4, i_seen txid_snapshot)
returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_prefix text;
    v_waits boolean;
begin
    select q.queue_data_pfx into v_prefix from pgq.queue as q where q.queue_id = i_queue_id;
    execute format(
        'select exists(select from %s where not txid_visible_in_snapshot(ev_txid, $1))', pgq._event_table(v_prefix)
    )
    into v_waits
    using i_seen;
    return v_waits;
end
$$;
