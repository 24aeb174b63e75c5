-- SQL for one column of generated code. i_field: what to read, as (i_new).name. Types are listed by their oid: those
-- whose ::text is their text form, those whose text form needs no escapes, those with PostgreSQL's own "=".
-- Invariant: the result is what row_event makes of the same column. These lock nothing.

-- Returns an expression for the text form.
create or replace function pgq.text_code(i_field text, i_type oid)
returns text
language sql immutable
set search_path = pg_catalog, pgq, pg_temp as $$
    select pg_catalog.format(
        case
            when i_type in (25, 1043) then '%s'
            when i_type in (17, 20, 21, 23, 26, 114, 700, 701, 1082, 1083, 1114, 1184, 1186, 1266, 1700, 2950, 3802)
                then '%s::pg_catalog.text'
            else 'case when pg_catalog.num_nulls(%1$s) operator(pg_catalog.=) 0 then pg_catalog.concat(%1$s) end'
        end, i_field
    );
$$;

-- Returns the field, and the type that code for it goes by: what is masked is a text, and so is a time with a zone of an
-- exact capture, in UTC.
create or replace function pgq.written_field(
    i_format text, i_field text, i_type oid, i_column text, i_args text[], out o_field text, out o_type oid
)
language sql immutable
set search_path = pg_catalog, pgq, pg_temp as $$
    select
        case
            when m.mask is not null
                then pg_catalog.format('pgq.masked(%s, %L)', pgq.text_code(i_field, i_type), m.mask)
            when not (pgq.is_exact(i_args) and i_type = 1184) then i_field
            when i_format = 'json' then pg_catalog.format(
                'pg_catalog.replace(pg_catalog.replace(pg_catalog.btrim(pg_catalog.to_json(pg_catalog.timezone(''UTC'', %s))::pg_catalog.text, '
                || '''"'') operator(pg_catalog.||) ''+00:00'', '' BC+00:00'', ''+00:00 BC''), ''infinity+00:00'', ''infinity'')', i_field
            )
            else pg_catalog.format(
                'pg_catalog.replace(pg_catalog.replace(pg_catalog.timezone(''UTC'', %s)::pg_catalog.text '
                || 'operator(pg_catalog.||) ''+00'', '' BC+00'', ''+00 BC''), ''infinity+00'', ''infinity'')', i_field
            )
        end,
        case when m.mask is not null or pgq.is_exact(i_args) and i_type = 1184 then 25 else i_type end
    from pgq.column_mask(i_args, i_column) as m (mask);
$$;

-- Returns an expression for the value as the format writes it.
create or replace function pgq.value_code(i_format text, i_field text, i_type oid)
returns text
language sql immutable
set search_path = pg_catalog, pgq, pg_temp as $$
    select pg_catalog.format(
        case
            when i_format = 'json' and i_type in (16, 20, 21, 23) then 'coalesce(%1$s::pg_catalog.text, ''null'')'
            when i_format = 'json' and i_type in (1082, 1114, 1184)
                then 'coalesce(pg_catalog.to_json(%1$s)::pg_catalog.text, ''null'')'
            when i_format = 'json' and i_type in (700, 701, 1083, 1186, 1266, 1700, 2950)
                then 'coalesce(''"'' operator(pg_catalog.||) %1$s::pg_catalog.text operator(pg_catalog.||) ''"'', ''null'')'
            when i_format = 'json' then 'coalesce(pg_catalog.to_json(%2$s)::pg_catalog.text, ''null'')'
            when i_format = 'url' and i_type in (20, 21, 23, 1700) then '''='' operator(pg_catalog.||) %2$s'
            when i_format = 'url' then '''='' operator(pg_catalog.||) pgq.url_encode(%2$s)'
            else 'coalesce(pg_catalog.quote_literal(%2$s), ''null'')'
        end, i_field, pgq.text_code(i_field, i_type)
    );
$$;

-- Returns an expression that says whether the column differs between (i_new) and (i_old); NULL for types that only
-- row_event compares. An exact one compares texts, but where equal values have one text: 1.0 and 1.00 differ, and "a" and
-- "A" of a collation that takes them for one.
drop function if exists pgq.differs_code(name, oid); -- an older installation's, which knew of no exact ones
create or replace function pgq.differs_code(i_column name, i_type oid, i_exact boolean)
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp as $$
    select case
            when i_type in (16, 17, 20, 21, 23, 26, 1082, 1083, 1114, 1184, 1266, 2950)
                or not i_exact and i_type in (19, 25, 700, 701, 790, 869, 1042, 1043, 1186, 1700, 3802)
                then pg_catalog.format(v.differs, v.new_field, v.old_field)
            when i_exact or pgq.column_kind(i_column, i_type) like '%t' then pg_catalog.format(
                v.differs, pgq.text_code(v.new_field, i_type) || v.byte_order, pgq.text_code(v.old_field, i_type) || v.byte_order
            )
        end
    from (
        values (
            'coalesce(%1$s operator(pg_catalog.<>) %2$s, (%1$s is null) operator(pg_catalog.<>) (%2$s is null))',
            pg_catalog.format('(i_new).%I', i_column), pg_catalog.format('(i_old).%I', i_column),
            case when i_exact then ' collate pg_catalog."C"' else '' end
        )
    ) as v (differs, new_field, old_field, byte_order);
$$;

-- Returns the condition under which a session shows the values of a table as settled_event does, which asks for the
-- settings that the types of the columns depend on, elements of arrays and ranges included; NULL when they depend on
-- none. A composite type may get another attribute at any time: it depends on all settings.
create or replace function pgq.settings_code(i_table regclass, i_format text)
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp as $$
    with recursive part as (
        select case a.atttypid when 1184 then 1114 else a.atttypid end as type_id
        from pg_catalog.pg_attribute as a
        where
            a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
            and not (i_format = 'json' and a.atttypid in (1082, 1114, 1184))
        union
        select inner_part.type_id
        from part as p
        inner join pg_catalog.pg_type as t on p.type_id = t.oid
        left join pg_catalog.pg_range as r on t.oid in (r.rngtypid, r.rngmultitypid)
        cross join lateral (values (t.typbasetype), (t.typelem), (r.rngsubtype)) as inner_part (type_id)
        where inner_part.type_id <> 0
    ),

    asked as (
        select case
                when t.oid in (
                    16, 18, 19, 20, 21, 23, 25, 26, 114, 650, 829, 869, 1042, 1043, 1083, 1266, 1560, 1562, 1700, 2950, 3802
                ) or t.typtype in ('d', 'e', 'm', 'r') or t.typelem <> 0 then null
                when t.typtype = 'c' or t.oid in (24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191) then 'pgq.is_settled()'
                when t.oid in (700, 701)
                    then 'pg_catalog.current_setting(''extra_float_digits'') operator(pg_catalog.>) ''0'' collate pg_catalog."C"'
                when t.oid = 790 then 'pg_catalog.current_setting(''lc_monetary'') operator(pg_catalog.=) ''C'''
                when t.oid = 1184 then 'pg_catalog.current_setting(''datestyle'') operator(pg_catalog.~~) ''ISO%'' '
                    || 'and pg_catalog.current_setting(''timezone'') operator(pg_catalog.=) any(''{UTC,Etc/UTC}'')'
                when t.oid in (1082, 1114)
                    then 'pg_catalog.current_setting(''datestyle'') operator(pg_catalog.~~) ''ISO%'''
                when t.oid = 1186
                    then 'pg_catalog.current_setting(''intervalstyle'') operator(pg_catalog.=) ''postgres'''
                when t.oid = 17 then 'pg_catalog.current_setting(''bytea_output'') operator(pg_catalog.=) ''hex'''
                else 'pgq.has_plain_settings()'
            end as code
        from part as p
        inner join pg_catalog.pg_type as t on p.type_id = t.oid
    )

    select coalesce(
            pg_catalog.max(a.code) filter (where a.code = 'pgq.is_settled()'),
            pg_catalog.string_agg(distinct a.code, ' and ')
        )
    from asked as a;
$$;
revoke execute on function pgq.text_code(text, oid) from public;
revoke execute on function pgq.written_field(text, text, oid, text, text[]) from public;
revoke execute on function pgq.value_code(text, text, oid) from public;
revoke execute on function pgq.differs_code(name, oid, boolean) from public;
revoke execute on function pgq.settings_code(regclass, text) from public;
