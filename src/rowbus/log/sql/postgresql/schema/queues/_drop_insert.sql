-- Drop the insert function of one queue, if it has one.
-- Locks the function's catalogue row; returns nothing.
create or replace function pgq._drop_insert(i_queue_id int4)
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_function regproc := to_regproc(format('pgq.insert_event_%s', i_queue_id));
begin
    if v_function is not null then
        execute format('drop function %s', v_function::regprocedure);
    end if;
end;
$$;
revoke execute on function pgq._drop_insert(int4) from public;
