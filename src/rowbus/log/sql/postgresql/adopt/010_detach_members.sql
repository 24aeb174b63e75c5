-- Take every object of PgQ's extensions out of them, so that dropping the extensions leaves the objects in place.
-- Locks the extensions' catalogue rows, until the end of the transaction; returns nothing. Needs their owner.
do $$
declare
    v_member record;
begin
    for v_member in
        select e.extname, o.type, o.identity
        from pg_extension as e
            inner join pg_depend as d
                on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid and d.deptype = 'e'
            cross join lateral pg_identify_object(d.classid, d.objid, d.objsubid) as o
        where e.extname in ('pgq_node', 'pgq_coop', 'pgq_ext', 'pgq')
    loop
        execute format('alter extension %I drop %s %s', v_member.extname, v_member.type, v_member.identity);
    end loop;
end;
$$;
