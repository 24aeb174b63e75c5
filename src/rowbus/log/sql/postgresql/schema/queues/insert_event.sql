-- Insert one event into a queue; it becomes visible to consumers with a tick after its transaction has committed.
-- On the hot path: every name is qualified, because pinning search_path would cost more than the rest of the function.
-- Locks nothing but the row it writes; returns the event's number.
create or replace function pgq.insert_event(queue_name text, ev_type text, ev_data text)
returns bigint
language plpgsql
as $$
begin
    return pgq.insert_event($1, $2, $3, null, null, null, null);
end;
$$;

create or replace function pgq.insert_event(
    queue_name text, ev_type text, ev_data text,
    ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
returns bigint
language plpgsql
security definer
as $$
begin
    return pgq.insert_event_raw($1, null, null, null, null, $2, $3, $4, $5, $6, $7);
end;
$$;
