-- Remember the last tick up to which a consumer has applied the queue in this database.
-- get_last_tick locks nothing; it returns that tick, NULL if there is none. set_last_tick locks the consumer's row until
-- the transaction ends; it moves to any tick, also backwards, NULL forgets it; it always returns 1.
create or replace function pgq_ext.get_last_tick(a_consumer text, a_subconsumer text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select t.last_tick_id
        from pgq_ext.completed_tick as t
        where t.consumer_id = a_consumer and t.subconsumer_id = a_subconsumer
    );
end;
$$;

create or replace function pgq_ext.get_last_tick(a_consumer text)
returns int8
language plpgsql
as $$
begin
    return pgq_ext.get_last_tick(a_consumer, '');
end;
$$;

create or replace function pgq_ext.set_last_tick(a_consumer text, a_subconsumer text, a_tick_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if a_tick_id is null then
        delete from pgq_ext.completed_tick as t
        where t.consumer_id = a_consumer and t.subconsumer_id = a_subconsumer;
    else
        insert into pgq_ext.completed_tick (consumer_id, subconsumer_id, last_tick_id)
        values (a_consumer, a_subconsumer, a_tick_id)
        on conflict (consumer_id, subconsumer_id) do update
        set last_tick_id = excluded.last_tick_id;
    end if;
    return 1;
end;
$$;

create or replace function pgq_ext.set_last_tick(a_consumer text, a_tick_id bigint)
returns integer
language plpgsql
as $$
begin
    return pgq_ext.set_last_tick(a_consumer, '', a_tick_id);
end;
$$;
