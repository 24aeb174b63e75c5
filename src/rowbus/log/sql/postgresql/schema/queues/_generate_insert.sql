-- Write insert_event_<queue id>(), which inserts into the current table of one queue with a plan that is kept.
-- One statement reads the queue's row and inserts: the row says whether that is still the current table, and whether
-- anything is to be checked first; if so nothing is inserted, and _insert_event_checked() does it the long way.
-- The function is written anew when the current table changes (see _queue_changed), so the long way is rare.
-- A session may go on with the function that it knows, and under an old snapshot (REPEATABLE READ) the row says what it
-- said before a rotation. But a rotation empties the next table, which gives that another file. Catalogues are read as
-- they are now, whatever the snapshot: nextval() has just locked the sequence, or has in this transaction before, which
-- then has a number from before that rotation.
-- The transaction has its number before the row is read, for a rotation that comes in between (see _await_rotation).
-- No search path holds pgq here, so that names of tables come out with their schema.
-- It can do no more than its caller: insert_event(), as the owner, and insert_event_raw(), which is for administrators.
-- Locks nothing but the function's catalogue row; returns whether there is such a function now.
create or replace function pgq._generate_insert(i_queue_id int4)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_table regclass;
    v_sequence regclass;
    v_following regclass; -- the table that the next rotation empties
begin
    select * into v_queue from pgq.queue where queue_id = i_queue_id;
    v_table := to_regclass(v_queue.queue_data_pfx || '_' || v_queue.queue_cur_table);
    v_sequence := to_regclass(v_queue.queue_event_seq);
    v_following := to_regclass(
        v_queue.queue_data_pfx || '_' || (v_queue.queue_cur_table + 1) % v_queue.queue_ntables
    );
    if not (pgq._is_event_table(v_table) and pgq._is_queue_sequence(v_sequence)) then
        perform pgq._drop_insert(i_queue_id);
        return false;
    end if;
    execute format(
        $template$
create or replace function pgq.%1$I(
    i_queue text, i_id int8, i_time timestamptz, i_owner int4, i_retry int4,
    i_type text, i_data text, i_extra1 text, i_extra2 text, i_extra3 text, i_extra4 text
)
returns int8
language plpgsql
as $function$
declare
    v_txid pg_catalog.int8 := pg_catalog.txid_current();
    v_next pg_catalog.int8 := pg_catalog.nextval(%2$L::pg_catalog.regclass);
begin
    insert into %3$s (
        ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    )
    select
        coalesce(i_id, v_next), coalesce(i_time, pg_catalog.now()), v_txid, i_owner, i_retry,
        i_type, i_data, i_extra1, i_extra2, i_extra3, i_extra4
    from pgq.queue as q
    where q.queue_id operator(pg_catalog.=) %4$s
        and q.queue_cur_table operator(pg_catalog.=) %5$s
        and not q.queue_disable_insert
        and (q.queue_per_tx_limit is null or pgq._never())
        and (
            pg_catalog.pg_relation_filenode(%6$L::pg_catalog.regclass) operator(pg_catalog.=) %7$s
            or pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.=) 'read committed'
        );
    if found then
        return coalesce(i_id, v_next);
    end if;
    return pgq._insert_event_checked(
        i_queue, i_id, i_time, i_owner, i_retry,
        i_type, i_data, i_extra1, i_extra2, i_extra3, i_extra4, v_next
    );
end;
$function$
        $template$,
        'insert_event_' || i_queue_id, v_sequence, v_table, i_queue_id, v_queue.queue_cur_table,
        v_following, coalesce(pg_relation_filenode(v_following)::text, 'null')
    );
    perform pgq._keep_insert(('pgq.insert_event_' || i_queue_id)::regproc);
    return true;
end;
$$;
revoke execute on function pgq._generate_insert(int4) from public;

-- Keep a generated insert function to administrators, unless that has been done: writing it anew keeps its privileges.
-- Locks its catalogue row if it changes it; returns nothing.
create or replace function pgq._keep_insert(i_function oid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if (select p.proacl is null from pg_proc as p where p.oid = i_function) then
        execute format('revoke execute on function %s from public', i_function::regprocedure);
        execute format('grant execute on function %s to pgq_admin', i_function::regprocedure);
    end if;
end;
$$;
revoke execute on function pgq._keep_insert(oid) from public;
