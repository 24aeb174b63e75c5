-- Remember single events that a consumer has applied in this database, for as long as it works on their batch.
-- is_event_done locks nothing and returns whether the event is done. set_event_done locks the consumer's row of
-- partial_batch until the transaction ends; it returns false if the event was done already, else true.
create or replace function pgq_ext.is_event_done(
    a_consumer text, a_subconsumer text, a_batch_id bigint, a_event_id bigint
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        select from pgq_ext.completed_event as e
        where e.consumer_id = a_consumer and e.subconsumer_id = a_subconsumer
            and e.batch_id = a_batch_id and e.event_id = a_event_id
    );
end;
$$;

create or replace function pgq_ext.is_event_done(a_consumer text, a_batch_id bigint, a_event_id bigint)
returns boolean
language plpgsql
as $$
begin
    return pgq_ext.is_event_done(a_consumer, '', a_batch_id, a_event_id);
end;
$$;

create or replace function pgq_ext.set_event_done(
    a_consumer text, a_subconsumer text, a_batch_id bigint, a_event_id bigint
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgq_ext.is_event_done(a_consumer, a_subconsumer, a_batch_id, a_event_id) then
        return false;
    end if;
    insert into pgq_ext.partial_batch as p (consumer_id, subconsumer_id, cur_batch_id)
    values (a_consumer, a_subconsumer, a_batch_id)
    on conflict (consumer_id, subconsumer_id) do update
    set cur_batch_id = excluded.cur_batch_id
    where p.cur_batch_id <> excluded.cur_batch_id;
    if found then -- the first event of another batch: those of the one before will not be asked for again
        delete from pgq_ext.completed_event as e
        where e.consumer_id = a_consumer and e.subconsumer_id = a_subconsumer and e.batch_id <> a_batch_id;
    end if;
    insert into pgq_ext.completed_event (consumer_id, subconsumer_id, batch_id, event_id)
    values (a_consumer, a_subconsumer, a_batch_id, a_event_id)
    on conflict do nothing;
    return found; -- not found: a concurrent transaction has just done it
end;
$$;

create or replace function pgq_ext.set_event_done(a_consumer text, a_batch_id bigint, a_event_id bigint)
returns boolean
language plpgsql
as $$
begin
    return pgq_ext.set_event_done(a_consumer, '', a_batch_id, a_event_id);
end;
$$;
