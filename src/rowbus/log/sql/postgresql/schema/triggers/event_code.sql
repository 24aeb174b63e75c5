-- Returns an expression for the data of one row (i_new or i_old), without the ignored columns. Locks nothing.
drop function if exists pgq.data_code(regclass, text, text, text[]); -- an older installation's
create or replace function pgq.data_code(
    i_table regclass, i_format text, i_row text, i_ignored text[], i_args text[]
)
returns text
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_names text;
    v_values text;
begin
    if i_format = 'json' and i_ignored is null and pg_catalog.array_to_string(i_args, ' ') !~ 'mask=' and not exists (
        select from pg_catalog.pg_attribute as a
        where
            a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
            and (pgq.column_kind(a.attname, a.atttypid) not like 'n%' or pgq.is_exact(i_args) and a.atttypid = 1184)
    ) then
        return pg_catalog.format('pg_catalog.row_to_json(%s)::pg_catalog.text', i_row);
    end if;
    select
        pg_catalog.string_agg(pg_catalog.quote_ident(c.attname), ',' order by c.attnum),
        pgq.concat_code(pg_catalog.array_agg(
            pg_catalog.concat_ws(
                ', ', pg_catalog.quote_literal(nullif(pg_catalog.concat(
                    case when c.place = 1 then '' when i_format = 'url' then '&' else ',' end,
                    case i_format
                        when 'json' then pg_catalog.to_json(c.attname) || ':'
                        when 'url' then pgq.url_encode(c.attname)
                    end
                ), '')),
                pgq.value_code(i_format, f.o_field, f.o_type)
            ) order by c.attnum
        ))
    into v_names, v_values
    from (
        select
            a.attname,
            a.atttypid,
            a.attnum,
            pg_catalog.row_number() over (order by a.attnum) as place
        from pg_catalog.pg_attribute as a
        where
            a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
            and a.attname <> all(coalesce(i_ignored, '{}'))
    ) as c
    cross join lateral pgq.written_field(i_format, pg_catalog.format('(%s).%I', i_row, c.attname), c.atttypid, c.attname, i_args) as f;
    return case i_format
        when 'json' then pg_catalog.format('pg_catalog.concat(''{'', %s, ''}'')', coalesce(v_values, 'null'))
        when 'url' then coalesce(v_values, '''''')
        else pg_catalog.format(
            'pg_catalog.concat(%L, %s, '')'')', '(' || coalesce(v_names, '') || ') values (',
            coalesce(v_values, 'null')
        )
    end;
end
$$;

-- Returns an expression for the data of sqltriga's update; NULL when a column is of a type that only row_event compares.
drop function if exists pgq.set_code(regclass, text[]); -- an older installation's
drop function if exists pgq.set_code(regclass, text[], boolean);
create or replace function pgq.set_code(i_table regclass, i_ignored text[], i_args text[])
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp as $$
    select case
            when pg_catalog.bool_and(pgq.differs_code(a.attname, a.atttypid, pgq.is_exact(i_args)) is not null) then pg_catalog.format(
                'pg_catalog.substr(%s, 2)',
                pgq.concat_code(pg_catalog.array_agg(pg_catalog.format(
                    'case when %s then pg_catalog.concat(%L, coalesce(pg_catalog.quote_literal(%s), ''NULL'')) end',
                    pgq.differs_code(a.attname, a.atttypid, pgq.is_exact(i_args)),
                    ',' || pg_catalog.quote_ident(a.attname) || '=',
                    pgq.text_code(f.o_field, f.o_type)
                ) order by a.attnum))
            )
        end
    from pg_catalog.pg_attribute as a
    cross join lateral pgq.written_field('sql', pg_catalog.format('(i_new).%I', a.attname), a.atttypid, a.attname, i_args) as f
    where
        a.attrelid = i_table and a.attnum > 0 and not a.attisdropped and a.attname <> all(coalesce(i_ignored, '{}'));
$$;

-- Returns an expression for the key of the old row as sqltriga writes it. Locks nothing.
drop function if exists pgq.key_code(regclass, text[]); -- an older installation's
create or replace function pgq.key_code(i_table regclass, i_key text[], i_args text[])
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp as $$
    select pg_catalog.string_agg(pg_catalog.format(
        'pg_catalog.concat(%L, pg_catalog.quote_literal(%s))', pg_catalog.quote_ident(a.attname) || '=',
        pgq.text_code(f.o_field, f.o_type)
    ), ' operator(pg_catalog.||) '' and '' operator(pg_catalog.||) ' order by a.attnum)
    from pg_catalog.pg_attribute as a
    cross join lateral pgq.written_field('sql', pg_catalog.format('(i_old).%I', a.attname), a.atttypid, a.attname, i_args) as f
    where a.attrelid = i_table and a.attnum > 0 and not a.attisdropped and a.attname = any(i_key);
$$;
revoke execute on function pgq.data_code(regclass, text, text, text[], text[]) from public;
revoke execute on function pgq.set_code(regclass, text[], text[]) from public;
revoke execute on function pgq.key_code(regclass, text[], text[]) from public;
