-- Let updates of a subscription be heap-only (HOT): no index holds a column that a batch changes, and pages have room.
-- PgQ's unique index on `sub_batch` made every batch leave two entries in each index; while an old snapshot is held they
-- cannot be removed, and each lookup waded through all of them (20 000 batches: 12 times slower). Batch ids come from one
-- sequence, so they are unique without it.
-- Locks pgq.subscription for a moment, if the index is still there; returns nothing.
do $$
begin
    if exists (
        select from pg_constraint as c
        where c.conrelid = 'pgq.subscription'::regclass and c.conname = 'subscription_batch_idx'
    ) then
        alter table pgq.subscription drop constraint subscription_batch_idx;
    end if;
    if not coalesce(
        (select c.reloptions @> '{fillfactor=50}' from pg_class as c where c.oid = 'pgq.subscription'::regclass), false
    ) then
        alter table pgq.subscription set (
            fillfactor = 50,
            autovacuum_vacuum_threshold = 200,
            autovacuum_vacuum_scale_factor = 0.2,
            autovacuum_vacuum_cost_delay = 0
        );
    end if;
end;
$$;
