-- List what pgq_node and londiste want done, where they are installed: the watermark and the sequences of root queues,
-- and londiste's periodic maintenance. Who may not see pgq_node's tables may not do its maintenance either.
-- Locks nothing.
create or replace function pgq._companions_operations(out func_name text, out func_arg text)
returns setof record
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    if has_table_privilege(to_regclass('pgq_node.node_info'), 'select') then
        return query execute
        'select ''pgq_node.maint_watermark'', queue_name from pgq_node.node_info where node_type = ''root'' order by 2';
        if to_regproc('londiste.root_check_seqs') is not null then
            return query execute
            'select ''londiste.root_check_seqs'', queue_name from pgq_node.node_info
            where node_type = ''root'' order by 2';
        end if;
    end if;
    if to_regproc('londiste.periodic_maintenance') is not null then
        func_name := 'londiste.periodic_maintenance';
        func_arg := null;
        return next;
    end if;
end
$$;
revoke execute on function pgq._companions_operations() from public;
grant execute on function pgq._companions_operations() to pgq_admin;
