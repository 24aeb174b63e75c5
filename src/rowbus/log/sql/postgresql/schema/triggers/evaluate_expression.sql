-- Returns the search path of a table's expressions: pg_catalog and the schema of the table, unless every role may create
-- objects there. Locks nothing.
create or replace function pgq.expression_path(i_table regclass)
returns text
language sql stable as $$
    select pg_catalog.concat_ws(
        ', ',
        'pg_catalog',
        (
            select pg_catalog.quote_ident(n.nspname::pg_catalog.text)
            from pg_catalog.pg_class as c
            inner join pg_catalog.pg_namespace as n on c.relnamespace operator(pg_catalog.=) n.oid
            where
                c.oid operator(pg_catalog.=) i_table
                and not exists (
                    select from pg_catalog.aclexplode(n.nspacl) as a
                    where a.grantee operator(pg_catalog.=) 0 and a.privilege_type operator(pg_catalog.=) 'CREATE'
                )
        ),
        'pg_temp'
    );
$$;

-- Evaluates an ev_...= or when= argument over a row: returns the text form of its value and the oid of its type. Raises
-- what the expression does, and an error unless it gives one row. Locks what the expression does.
-- Invariant: its names do not depend on the session's search path. A cascade runs it with the rights of the table's owner
-- (from 18 on also in AFTER triggers), and the path is that of who deletes. What is set here ends with the function.
create or replace function pgq.evaluate_expression(
    i_expression text, i_names text[], i_row anyelement, out o_value text, out o_type oid
)
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_query pg_catalog.text := pgq.column_expression(i_expression, i_names);
    v_rows integer := 0;
begin
    if pg_catalog.btrim(v_query) operator(pg_catalog.=) '' then
        o_type := 0;
        return;
    end if;
    perform pg_catalog.set_config('search_path', pgq.expression_path(pgq.row_table(i_row)), true);
    for o_value, o_type in
        execute pg_catalog.concat(
            'select case when pg_catalog.num_nulls(q.value) operator(pg_catalog.=) 0 then pg_catalog.concat(q.value) end, ',
            'pg_catalog.pg_typeof(q.value)::pg_catalog.oid from (select ', v_query, e'\n) as q (value)'
        ) using i_row
    loop
        v_rows := v_rows operator(pg_catalog.+) 1;
    end loop;
    if v_rows operator(pg_catalog.<>) 1 then
        raise exception using
            errcode = 'XX000', message = pg_catalog.format('Expect 1 row from override query, got %s', v_rows);
    end if;
end
$$;

-- Raises what is wrong with the expressions among the arguments of a trigger, without evaluating them: PgQ prepares
-- them before it looks at anything else. Returns nothing.
create or replace function pgq.check_expressions(i_args text[], i_names text[], i_table regclass)
returns void
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_query pg_catalog.text;
    v_row pg_catalog.text := (
        select pg_catalog.format('%I.%I', n.nspname, c.relname)
        from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on c.relnamespace operator(pg_catalog.=) n.oid
        where c.oid operator(pg_catalog.=) i_table
    );
begin
    perform pg_catalog.set_config('search_path', pgq.expression_path(i_table), true);
    for i in 1 .. pg_catalog.array_upper(i_args, 1) loop
        if i_args[i] operator(pg_catalog.~) '^(ev_(type|data|extra[1-4])|when)=' then
            v_query := pgq.column_expression(
                pg_catalog.substr(i_args[i], pg_catalog.strpos(i_args[i], '=') operator(pg_catalog.+) 1), i_names
            );
            execute pg_catalog.format('prepare pgq_expression (%s) as select %s', v_row, v_query);
            execute 'deallocate pgq_expression';
        end if;
    end loop;
end
$$;
