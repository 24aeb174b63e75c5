-- Empty a table if that is possible without waiting for anybody; say whether it was. Locks the table, exclusively.
create or replace function pgq._truncate_unless_locked(i_table text)
returns boolean
language plpgsql
as $$
begin
    execute format('lock table %s nowait', pgq.quote_fqname(i_table));
    execute format('truncate %s', pgq.quote_fqname(i_table));
    return true;
exception
    when lock_not_available then
        return false;
end
$$;
