-- Take every object of the extensions that depend on PgQ's, as londiste, out of them, and drop these extensions, which are
-- empty by then: the last in a chain first. Does nothing where there are none; the installer has asked before.
-- Locks the extensions' catalogue rows, until the end of the transaction; returns nothing. Needs their owner.
do $$
declare
    v_extension record;
    v_member record;
begin
    loop
        with recursive released as (
            select e.oid, e.extname
            from pg_extension as e
            where e.extname in ('pgq_node', 'pgq_coop', 'pgq_ext', 'pgq')

            union

            select d.oid, d.extname
            from released as r
                inner join pg_depend as p on r.oid = p.refobjid and p.refclassid = 'pg_extension'::regclass
                inner join pg_extension as d on p.classid = 'pg_extension'::regclass and p.objid = d.oid
        )

        select r.oid, r.extname
        into v_extension
        from released as r
        where r.extname not in ('pgq_node', 'pgq_coop', 'pgq_ext', 'pgq')
            and not exists (
                select
                from pg_depend as p
                where p.refclassid = 'pg_extension'::regclass
                    and p.refobjid = r.oid
                    and p.classid = 'pg_extension'::regclass
            )
        limit 1;
        exit when not found;

        for v_member in
            select o.type, o.identity
            from pg_depend as d
                cross join lateral pg_identify_object(d.classid, d.objid, d.objsubid) as o
            where d.refclassid = 'pg_extension'::regclass and d.refobjid = v_extension.oid and d.deptype = 'e'
        loop
            execute format(
                'alter extension %I drop %s %s', v_extension.extname, v_member.type, v_member.identity
            );
        end loop;
        execute format('drop extension %I', v_extension.extname);
    end loop;
end;
$$;
