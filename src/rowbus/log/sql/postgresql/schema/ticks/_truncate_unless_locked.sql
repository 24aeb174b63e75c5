-- Empty a table unless that means waiting for a lock; return whether it is empty now. Locks the table, exclusively.
create or replace function pgq._truncate_unless_locked(i_table text)
returns boolean
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    execute format('lock table %s nowait', pgq._event_table(i_table));
    execute format('truncate %s', pgq._event_table(i_table));
    return true;
exception
    when lock_not_available then
        return false;
end
$$;
revoke execute on function pgq._truncate_unless_locked(text) from public;
grant execute on function pgq._truncate_unless_locked(text) to pgq_admin;
