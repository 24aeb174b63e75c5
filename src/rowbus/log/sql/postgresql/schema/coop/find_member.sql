-- Find a main consumer, and a subconsumer among those that share its row.
-- _lock_consumer locks the main consumer's subscription until the transaction ends: a session that gives out, takes
-- over or hands back a batch does that first, so that two never decide on the same batch. It serialises decisions, not
-- work. _find_member locks nothing. Both return the subscription, all NULL if there is none.
create or replace function pgq_coop._lock_consumer(i_queue_name text, i_consumer_name text)
returns pgq.subscription
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    main pgq.subscription;
begin
    select s.*
    into main
    from pgq.subscription as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name
    for update of s;
    return main;
end;
$$;

create or replace function pgq_coop._find_member(i_main pgq.subscription, i_name text)
returns pgq.subscription
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    member pgq.subscription;
begin
    select s.*
    into member
    from pgq.subscription as s
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where s.sub_queue = i_main.sub_queue and s.sub_id = i_main.sub_id and c.co_name = i_name;
    return member;
end;
$$;
