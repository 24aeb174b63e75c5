-- Tick a queue if one is due by PgQ's rules, and notify its channel. Takes the queue's ticker lock until the end of the
-- transaction, never waiting: NULL if another ticker has it. Must run in READ COMMITTED, where the statement that
-- writes the tick has a snapshot taken after the lock. Returns the tick's id, NULL if none was due.
create or replace function pgq.ticker(i_queue_name text)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_last pgq.tick;
    v_events regclass;
    v_position bigint;
    v_now bigint;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        raise exception 'no such queue';
    end if;
    if v_queue.queue_external_ticker then
        raise exception 'This queue has external tick source.';
    end if;
    if v_queue.queue_ticker_paused then
        raise exception 'Ticker has been paused for this queue';
    end if;
    if not pg_try_advisory_xact_lock(1885827444, v_queue.queue_id) then -- 1885827444: 'pgqt'
        return null;
    end if;
    v_events := pgq._queue_sequence(v_queue.queue_event_seq);
    v_position := coalesce(pg_sequence_last_value(v_events), pgq.seq_getval(v_queue.queue_event_seq)); -- NULL when unused
    select * into v_last from pgq.tick where tick_queue = v_queue.queue_id order by tick_id desc limit 1;
    if found then
        v_now := txid_snapshot_xmax(txid_current_snapshot());
        if txid_snapshot_xmin(v_last.tick_snapshot) > v_now then
            raise exception 'Invalid PgQ state: old xmin=%, old xmax=%, cur txid=%',
                txid_snapshot_xmin(v_last.tick_snapshot), txid_snapshot_xmax(v_last.tick_snapshot), v_now;
        end if;
        if txid_snapshot_xmax(v_last.tick_snapshot) > v_now then
            raise warning 'Dubious PgQ state: old xmax=%, cur txid=%', txid_snapshot_xmax(v_last.tick_snapshot), v_now;
        end if;
        if current_setting('transaction_isolation') <> 'read committed' then
            raise exception 'the ticker must run in READ COMMITTED, not in %', current_setting('transaction_isolation');
        end if;
        if v_position < v_last.tick_event_seq then
            raise warning 'Negative new_events?  old=% cur=%', v_last.tick_event_seq, v_position;
        end if;
        if (select w.wait > interval '0' from pgq._tick_wish as w where w.queue_id = v_queue.queue_id) then
            return null;
        end if;
    end if;
    return pgq._insert_tick(v_queue, v_last, nextval(pgq._queue_sequence(v_queue.queue_tick_seq)), now(), v_position);
end
$$;
