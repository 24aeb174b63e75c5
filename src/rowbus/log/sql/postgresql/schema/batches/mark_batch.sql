-- Mark part `i_part` of `i_parts` of a batch as done up to an event, in the transaction that did the work, unless the
-- mark has changed since the caller read `i_previous` (NULL: there was no mark). What note_attempt noted goes.
-- Locks the batch's subscription against being finished, taken over or moved, and the mark, until the transaction ends.
-- Returns 1; or 0 when the batch is no longer held or another process works on it: a caller that gets 0 must undo its
-- work.
create or replace function pgq.mark_batch(
    i_batch_id bigint, i_parts int4, i_part int4, i_event_id bigint, i_previous bigint
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    touched int;
begin
    perform from pgq.subscription as s where s.sub_batch = i_batch_id for share;
    if not found then
        return 0;
    end if;
    if i_previous is null then
        insert into pgq.batch_position as p (bp_batch, bp_parts, bp_part, bp_event)
        values (i_batch_id, i_parts, i_part, i_event_id)
        on conflict (bp_batch, bp_parts, bp_part) do nothing;
    else
        update pgq.batch_position as p
        set bp_event = i_event_id, bp_tried = null, bp_losses = null
        where p.bp_batch = i_batch_id and p.bp_parts = i_parts and p.bp_part = i_part and p.bp_event = i_previous;
    end if;
    get diagnostics touched = row_count;
    return touched;
end;
$$;
