-- Note, before events are handled that may have broken a connection or a process, that part `i_part` of `i_parts` of a
-- batch has begun with those up to `i_tried`, which were lost `i_losses` times before. To be committed at once. Not if
-- the mark has changed since the caller read `i_previous` (NULL: there was no mark; 0, before all events, is made).
-- Locks the batch's subscription against being finished, taken over or moved, and the mark, until the transaction ends.
-- Returns 1; or 0 when the batch is no longer held or another process works on it.
create or replace function pgq.note_attempt(
    i_batch_id bigint, i_parts int4, i_part int4, i_previous bigint, i_tried bigint, i_losses int4
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
        insert into pgq.batch_position as p (bp_batch, bp_parts, bp_part, bp_event, bp_tried, bp_losses)
        values (i_batch_id, i_parts, i_part, 0, i_tried, i_losses)
        on conflict (bp_batch, bp_parts, bp_part) do nothing;
    else
        update pgq.batch_position as p
        set bp_tried = i_tried, bp_losses = i_losses
        where p.bp_batch = i_batch_id and p.bp_parts = i_parts and p.bp_part = i_part and p.bp_event = i_previous;
    end if;
    get diagnostics touched = row_count;
    return touched;
end;
$$;
