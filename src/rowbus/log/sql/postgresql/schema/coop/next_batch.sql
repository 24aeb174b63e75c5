-- Take the next batch for a subconsumer, as next_batch_info does, which says what is locked.
-- Returns the id of the batch, NULL if there is none.
create or replace function pgq_coop.next_batch(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text
)
returns bigint
language plpgsql
as $$
begin
    return pgq_coop.next_batch_custom(i_queue_name, i_consumer_name, i_subconsumer_name, null, null, null, null);
end;
$$;

create or replace function pgq_coop.next_batch(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_dead_interval interval
)
returns bigint
language plpgsql
as $$
begin
    return pgq_coop.next_batch_custom(
        i_queue_name, i_consumer_name, i_subconsumer_name, null, null, null, i_dead_interval
    );
end;
$$;

create or replace function pgq_coop.next_batch_custom(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text,
    i_min_lag interval,
    i_min_count int4,
    i_min_interval interval
)
returns bigint
language plpgsql
as $$
begin
    return pgq_coop.next_batch_custom(
        i_queue_name, i_consumer_name, i_subconsumer_name, i_min_lag, i_min_count, i_min_interval, null
    );
end;
$$;

create or replace function pgq_coop.next_batch_custom(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text,
    i_min_lag interval,
    i_min_count int4,
    i_min_interval interval,
    i_dead_interval interval
)
returns bigint
language plpgsql
as $$
begin
    return (
        pgq_coop.next_batch_info(
            i_queue_name, i_consumer_name, i_subconsumer_name,
            i_min_lag, i_min_count, i_min_interval, i_dead_interval
        )
    ).batch_id;
end;
$$;
