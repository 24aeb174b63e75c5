-- Find the subscription that holds a batch, wherever its live version is (see _subscription_tail).
-- Locks nothing; returns the version's place, NULL for a batch that is unknown, NULL or finished.
create or replace function pgq._find_batch(i_batch_id bigint)
returns tid
language plpgsql
stable
set enable_seqscan = off
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    from_there pg_catalog.tid := pgq._subscription_place();
    place pg_catalog.tid;
begin
    select s.ctid into place from pgq.subscription as s where s.ctid = from_there and s.sub_batch = i_batch_id;
    if not found then
        from_there := pgq._subscription_tail();
        select s.ctid into place from pgq.subscription as s where s.ctid >= from_there and s.sub_batch = i_batch_id;
    end if;
    if not found and from_there > '(0,0)' then
        select s.ctid into place from pgq.subscription as s where s.ctid >= '(0,0)' and s.sub_batch = i_batch_id;
    end if;
    return place;
end;
$$;
