-- Say whether a batch is held and its marks are those that the caller has read or written, so that no other process has
-- done a part of it: who finishes a batch asks this first, in the same transaction.
-- Locks the batch's subscription until the transaction ends, so that no mark is added meanwhile; waits for a
-- transaction that adds one.
create or replace function pgq.hold_marks(
    i_batch_id bigint, i_parts int4[], i_part int4[], i_events bigint[]
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
set enable_seqscan = off -- see _subscription_tail
as $$
declare
    v_seen tid := pgq._find_batch(i_batch_id);
begin
    perform from pgq.subscription as s where s.ctid = v_seen and s.sub_batch = i_batch_id for no key update;
    if not found and v_seen is not null then -- it has moved meanwhile: its consumer gave a sign of life
        perform from pgq.subscription as s
        where s.ctid >= '(0,0)' and s.sub_batch = i_batch_id for no key update;
    end if;
    return found and not exists (
        select
        from (
            select p.bp_parts, p.bp_part, p.bp_event from pgq.batch_position as p where p.bp_batch = i_batch_id
        ) as noted
        full join unnest(i_parts, i_part, i_events) as known (parts, part, event)
            on noted.bp_parts = known.parts and noted.bp_part = known.part
        where noted.bp_event is distinct from known.event
    );
end;
$$;
