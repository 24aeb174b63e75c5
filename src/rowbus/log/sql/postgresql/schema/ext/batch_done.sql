-- Remember the last batch that a consumer has applied in this database.
-- is_batch_done locks nothing and returns whether the batch is that last one. set_batch_done locks the consumer's row
-- until the transaction ends; it returns false if the batch was done already, else true.
create or replace function pgq_ext.is_batch_done(a_consumer text, a_subconsumer text, a_batch_id bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    done boolean;
begin
    select b.last_batch_id = a_batch_id
    into done
    from pgq_ext.completed_batch as b
    where b.consumer_id = a_consumer and b.subconsumer_id = a_subconsumer;
    if not found then
        return false;
    end if;
    return done;
end;
$$;

create or replace function pgq_ext.is_batch_done(a_consumer text, a_batch_id bigint)
returns boolean
language plpgsql
as $$
begin
    return pgq_ext.is_batch_done(a_consumer, '', a_batch_id);
end;
$$;

create or replace function pgq_ext.set_batch_done(a_consumer text, a_subconsumer text, a_batch_id bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgq_ext.is_batch_done(a_consumer, a_subconsumer, a_batch_id) then
        return false;
    end if;
    if a_batch_id > 0 then -- any other is not remembered, and is "not done" for ever
        insert into pgq_ext.completed_batch as b (consumer_id, subconsumer_id, last_batch_id)
        values (a_consumer, a_subconsumer, a_batch_id)
        on conflict (consumer_id, subconsumer_id) do update
        set last_batch_id = excluded.last_batch_id
        where b.last_batch_id <> excluded.last_batch_id;
        return found; -- not found: a concurrent transaction has just done the same batch
    end if;
    return true;
end;
$$;

create or replace function pgq_ext.set_batch_done(a_consumer text, a_batch_id bigint)
returns boolean
language plpgsql
as $$
begin
    return pgq_ext.set_batch_done(a_consumer, '', a_batch_id);
end;
$$;
