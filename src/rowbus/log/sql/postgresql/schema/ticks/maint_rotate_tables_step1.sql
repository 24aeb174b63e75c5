-- Rotate a queue's tables if it is time and no consumer needs the spare one: empty it and make it the current one.
-- Locks the queue's row, for which it waits as long as lock_timeout allows, and, without waiting, the table to be
-- emptied. What keeps it from rotating is noted in pgq.rotation_block. Ticks older than the rotation before go. A
-- consumer whose tick is gone keeps nothing, and is named there. Returns 0.
create or replace function pgq.maint_rotate_tables_step1(i_queue_name text)
returns integer
language plpgsql set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_lowest bigint;
    v_xmin bigint;
    v_next integer;
    v_lost text;
begin
    begin
        select * into v_queue from pgq.queue
        where queue_name = i_queue_name
            and queue_rotation_period is not null
            and queue_switch_step2 is not null
            and queue_switch_time + queue_rotation_period < now()
        for update;
    exception
        when lock_not_available then
            return pgq._note_rotation_block((select queue_id from pgq.queue where queue_name = i_queue_name),
                'the queue''s row is locked, by a transaction that registers, retries, or appends under an old snapshot',
                pgq._old_writers(txid_current()));
    end;
    if not found then
        return 0;
    end if;
    if txid_current() < v_queue.queue_switch_step1 then
        raise exception 'queue % maint failure: step1=%, current=%',
            i_queue_name, v_queue.queue_switch_step1, txid_current();
    end if;
    select min(s.sub_last_tick) into v_lowest
    from pgq.subscription as s
    inner join pgq.tick as t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
    where s.sub_queue = v_queue.queue_id;
    if v_lowest is not null then
        select txid_snapshot_xmin(tick_snapshot) into v_xmin from pgq.tick
        where tick_queue = v_queue.queue_id and tick_id = v_lowest;
        if v_xmin <= v_queue.queue_switch_step2 then
            return pgq._note_rotation_block(v_queue.queue_id,
                'a consumer, or a transaction older than its position, still needs the previous table',
                concat_ws('; ', pgq._rotation_holders(v_queue.queue_id, v_queue.queue_switch_step2),
                    pgq._old_writers(v_queue.queue_switch_step2)));
        end if;
    end if;
    v_next := (v_queue.queue_cur_table + 1) % v_queue.queue_ntables;
    if not pgq._truncate_unless_locked(v_queue.queue_data_pfx || '_' || v_next) then
        return pgq._note_rotation_block(v_queue.queue_id, 'the table to be emptied is locked',
            concat_ws(': ', v_queue.queue_data_pfx || '_' || v_next,
                pgq._table_lockers(v_queue.queue_data_pfx || '_' || v_next)));
    end if;
    update pgq.queue set
        queue_cur_table = v_next,
        queue_switch_time = now(),
        queue_switch_step1 = txid_current(),
        queue_switch_step2 = null
    where queue_id = v_queue.queue_id;
    delete from pgq.tick
    where tick_queue = v_queue.queue_id and txid_snapshot_xmin(tick_snapshot) < v_queue.queue_switch_step2;
    v_lost := pgq._lost_consumers(v_queue.queue_id);
    if v_lost is not null then
        return pgq._note_rotation_block(v_queue.queue_id,
            'the tables are rotated, but a consumer''s position is a tick that is gone: rewind it, or unregister it',
            v_lost);
    end if;
    delete from pgq.rotation_block where rb_queue = v_queue.queue_id;
    return 0;
end
$$;
