-- List the maintenance that is due: functions to call, each with an argument or NULL, as often as they return 1, and
-- tables to vacuum. A function of a queue's own choice whose owner maintenance does not trust (_is_trusted_owner) is
-- left out, with a warning: it would run with the daemon's rights. Locks nothing.
create or replace function pgq.maint_operations(out func_name text, out func_arg text)
returns setof record
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_rotates boolean := false;
    v_extra record;
begin
    for func_arg in
        select q.queue_name from pgq.queue as q
        where q.queue_rotation_period is not null
            and q.queue_switch_step2 is not null
            and q.queue_switch_time + q.queue_rotation_period < now()
        order by q.queue_name
    loop
        func_name := 'pgq.maint_rotate_tables_step1';
        v_rotates := true;
        return next;
    end loop;
    if v_rotates or exists(select from pgq.queue as q where q.queue_switch_step2 is null) then
        func_name := 'pgq.maint_rotate_tables_step2';
        func_arg := null;
        return next;
    end if;
    for v_extra in
        select extra.name, q.queue_name, pgq._untrusted_owner(extra.name) as owner
        from pgq.queue as q, unnest(q.queue_extra_maint) as extra (name)
        order by q.queue_name
    loop
        if v_extra.owner is null then
            func_name := v_extra.name;
            func_arg := v_extra.queue_name;
            return next;
        else
            raise warning 'maintenance of queue % leaves out %: it belongs to %',
                v_extra.queue_name, v_extra.name, v_extra.owner
                using hint = 'Let a superuser, the owner of schema pgq or the role that runs maintenance own it.';
        end if;
    end loop;
    return query
    select 'vacuum', t from pgq.maint_tables_to_vacuum() as t;
    return query select * from pgq._companions_operations();
end
$$;
