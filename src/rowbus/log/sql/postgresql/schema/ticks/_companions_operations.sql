-- List the maintenance of pgq_node and londiste, where they are installed: the watermark and the sequences of root
-- queues, and londiste's periodic maintenance. A role that may not read pgq_node's tables does not maintain it either.
-- Functions of owners that maintenance does not trust (_is_trusted_owner) are left out, with a warning, and no table of
-- such an owner is read: it might be a view.
-- Locks nothing.
create or replace function pgq._companions_operations(out func_name text, out func_arg text)
returns setof record
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_nodes oid := to_regclass('pgq_node.node_info');
    v_owner text;
    v_operation record;
begin
    select quote_ident(pg_get_userbyid(c.relowner)) into v_owner
    from pg_class as c
    where c.oid = v_nodes and not pgq._is_trusted_owner(c.relowner);
    if found then
        raise warning 'maintenance leaves out pgq_node: its table node_info belongs to %', v_owner;
        v_nodes := null;
    end if;
    for v_operation in
        select o.name, o.is_of_nodes, pgq._untrusted_owner(o.name) as owner
        from (
            values
            (1, 'pgq_node.maint_watermark', true),
            (2, 'londiste.root_check_seqs', true),
            (3, 'londiste.periodic_maintenance', false)
        ) as o (place, name, is_of_nodes)
        where to_regproc(o.name) is not null or o.place = 1
        order by o.place
    loop
        if v_operation.owner is not null then
            raise warning 'maintenance leaves out %: it belongs to %', v_operation.name, v_operation.owner
                using hint = 'Let a superuser, the owner of schema pgq or the role that runs maintenance own it.';
        elsif not v_operation.is_of_nodes then
            func_name := v_operation.name;
            func_arg := null;
            return next;
        elsif has_table_privilege(v_nodes, 'select') then
            return query execute
            'select $1, queue_name from pgq_node.node_info where node_type = ''root'' order by 2'
            using v_operation.name;
        end if;
    end loop;
end
$$;
revoke execute on function pgq._companions_operations() from public;
grant execute on function pgq._companions_operations() to pgq_admin;
