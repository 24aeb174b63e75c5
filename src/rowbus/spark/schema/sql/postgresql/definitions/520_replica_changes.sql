-- Applying a micro-batch of changes to a replica: all its tables in the one transaction of the caller.
-- A stage has the columns c1 source_table text, c2 event bigint, c3 part int4 (of the changes of one event),
-- c4 transaction bigint, c5 operation text (I, U, D, T; A and N: the table got another shape or name), c6 row text, which
-- is a JSON object.

-- Apply the changes in stages to every table of a replica that they are about, and move the replica to the batch. A table
-- that does not take its changes, because of what people have made of it, stands still from here on, and the others go on.
-- i_query, the id of the checkpoint's query, may be null for a batch without stages. Values look and are read as exact
-- captures write them, whatever the settings of the database and the role: rows without a key are compared as texts.
-- Waits for a session that applies changes to the same replica. Returns how many changes were applied; null when the batch was
-- applied before. Raises 55000 when batches are missing between this and the last, 42P16 when a table has changed.
create or replace function rowbus_spark.apply_changes(
    i_replica text, i_query text, i_batch bigint, i_stages text[]
)
returns bigint
language plpgsql
set datestyle = 'ISO' set extra_float_digits = 1 set intervalstyle = 'postgres'
set bytea_output = 'hex' set lc_monetary = 'C' set array_nulls = on set xmloption = content
as $$
declare
    v_applied pg_catalog.record;
    v_faults pg_catalog.jsonb := '{}';
    v_stage pg_catalog.text := rowbus_spark.union_of_stages(i_stages);
    v_schema pg_catalog.text;
    v_name pg_catalog.text;
    v_constraint pg_catalog.text;
    v_trigger pg_catalog.record;
    v_table pg_catalog.text;
begin
    if not rowbus_spark.is_next_batch(i_replica, i_query, i_batch) then
        return null;
    end if;
    set constraints all deferred;
    loop
        v_table := null;
        begin
            v_applied := rowbus_spark.apply_to_tables(i_replica, v_stage, v_faults);
            v_faults := v_applied.faults;
            for v_trigger in select * from rowbus_spark.waiting_triggers(i_replica, v_faults) as t loop
                v_table := v_trigger.source_table;
                execute pg_catalog.format('set constraints %I.%I immediate', v_trigger.schema_name, v_trigger.trigger_name);
            end loop;
            v_table := null;
            set constraints all immediate;
            exit;
        exception when others then
            if sqlstate operator(pg_catalog.~) '^23' and v_table is null then
                get stacked diagnostics v_schema := schema_name, v_name := table_name, v_constraint := constraint_name;
                v_table := rowbus_spark.constrained_table(i_replica, v_schema, v_name, v_constraint, v_faults);
            end if;
            if v_table is null or not rowbus_spark.is_of_table(sqlstate) then
                raise;
            end if;
            v_faults := v_faults operator(pg_catalog.||) pg_catalog.jsonb_build_object(v_table, sqlerrm);
        end;
    end loop;
    perform rowbus_spark.note_faults(i_replica, v_faults);
    perform rowbus_spark.move_replica(i_replica, i_query, i_batch);
    return v_applied.changes;
end
$$;

-- Apply the changes of a stage to the tables of a replica, but for those with a fault. Returns how many changes were applied,
-- and the faults, by table: those that were given, and those of tables that do not take their changes. Only what is about a
-- table is one; what passes, or stops all of them, is raised. Locks as apply_changes does.
create or replace function rowbus_spark.apply_to_tables(
    i_replica text, i_stage text, i_faults jsonb, out changes bigint, out faults jsonb
)
language plpgsql
as $$
declare
    v_table pg_catalog.record;
begin
    changes := 0;
    faults := i_faults;
    for v_table in
        execute pg_catalog.format(
            'select t.*, s.operations from rowbus_spark.replica_table as t inner join ('
            'select c1, pg_catalog.array_agg(distinct c5) as operations from %s as c group by c1) as s '
            'on t.source_table operator(pg_catalog.=) s.c1 '
            'where t.replica operator(pg_catalog.=) $1 and coalesce(t.shape operator(pg_catalog.<>) '''', true) '
            'and t.fault is null and not $2 operator(pg_catalog.?) t.source_table order by t.source_table', i_stage
        ) using i_replica, i_faults
    loop
        perform rowbus_spark.check_changes(i_stage, v_table.source_table, v_table.column_names, v_table.copied_in);
        begin
            changes := changes operator(pg_catalog.+) rowbus_spark.apply_to_table(
                i_stage, v_table.source_table, v_table.target, v_table.column_names, v_table.key_columns,
                v_table.copied_in, v_table.operations
            );
        exception when others then
            if not rowbus_spark.is_of_table(sqlstate) then
                raise;
            end if;
            faults := faults operator(pg_catalog.||) pg_catalog.jsonb_build_object(v_table.source_table, sqlerrm);
        end;
    end loop;
end
$$;

-- Say whether an error is about a table, as it is or as its triggers are; the others pass, or stop all tables. Locks nothing.
create or replace function rowbus_spark.is_of_table(i_sqlstate text)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select left(i_sqlstate, 2) = any('{0A,21,22,23,2B,2F,38,39,3F,42,44,54,P0}')
$$;

-- List the triggers that wait for the end of a transaction, of a replica's tables without a fault. Locks nothing.
create or replace function rowbus_spark.waiting_triggers(
    i_replica text, i_faults jsonb, out source_table text, out schema_name text, out trigger_name text
)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select t.source_table, n.nspname::text, c.conname::text
    from rowbus_spark.replica_table as t
    inner join pg_constraint as c on c.conrelid = to_regclass(nullif(t.target, ''))::oid
    inner join pg_namespace as n on c.connamespace = n.oid
    where
        c.contype = 't' and c.condeferrable
        and t.replica = i_replica and t.fault is null and t.shape <> '' and not i_faults ? t.source_table
    order by t.source_table, c.conname
$$;

-- Find the table of a replica, of those without a fault, whose rows do not keep a constraint: its own, or else the one that a
-- foreign key refers to. Locks nothing. Returns its source, null where there is none.
create or replace function rowbus_spark.constrained_table(
    i_replica text, i_schema text, i_table text, i_constraint text, i_faults jsonb
)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select t.source_table
    from pg_catalog.pg_constraint as c
    inner join rowbus_spark.replica_table as t on to_regclass(nullif(t.target, ''))::oid in (c.conrelid, c.confrelid)
    where
        c.conname = i_constraint and c.conrelid = to_regclass(format('%I.%I', i_schema, i_table))::oid
        and t.replica = i_replica and t.fault is null and t.shape <> '' and not i_faults ? t.source_table
    order by to_regclass(nullif(t.target, ''))::oid = c.conrelid desc, t.source_table
    limit 1
$$;

-- Note which tables of a replica stand still, and why; one that it does not have yet is noted without a copy. Locks their
-- records; returns nothing.
create or replace function rowbus_spark.note_faults(i_replica text, i_faults jsonb)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    insert into rowbus_spark.replica_table as t (
        replica, source_table, target, column_names, key_columns, copied_in, shape, fault
    )
    select i_replica, f.key, '', '{}', '{}', '', '', f.value
    from jsonb_each_text(i_faults) as f
    on conflict (replica, source_table) do update set fault = excluded.fault
$$;

-- Note that a replica has come to a batch of a query's, whose id may be null. Locks the replica; returns nothing.
create or replace function rowbus_spark.move_replica(i_replica text, i_query text, i_batch bigint)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    update rowbus_spark.replica as r
    set query_id = coalesce(i_query, r.query_id), last_batch = i_batch, changed_at = now()
    where r.replica = i_replica
$$;

-- Write the query of all rows of stages, in brackets. Locks nothing.
create or replace function rowbus_spark.union_of_stages(i_stages text[])
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        '(select null::pg_catalog.text as c1, null::bigint as c2, null::integer as c3, null::bigint as c4, null::pg_catalog.text as c5, '
        || 'null::pg_catalog.jsonb as c6 where false'
        || coalesce(
            string_agg(
                format(' union all select c1, c2, c3, c4, c5, c6::pg_catalog.jsonb from rowbus_spark.%I', given.stage), ''
            ), ''
        ) || ')'
    from unnest(i_stages) as given (stage)
$$;

-- Say whether a batch is the one that a replica waits for: false when it has been applied, an error when others are missing.
-- Locks the replica.
create or replace function rowbus_spark.is_next_batch(i_replica text, i_query text, i_batch bigint)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_replica rowbus_spark.replica;
begin
    select * into v_replica from rowbus_spark.replica as r where r.replica = i_replica for update;
    if v_replica.replica is null then
        raise exception using
            errcode = '55000',
            message = format('replica %s is not there; it is made by rowbus spark replicate', i_replica);
    elsif v_replica.query_id <> i_query then
        raise exception using
            errcode = '55000',
            message = format(
                'replica %s was filled from another checkpoint; take that one, or copy the tables again', i_replica
            );
    elsif v_replica.last_batch is not null and i_batch > v_replica.last_batch + 1 then
        raise exception using
            errcode = '55000',
            message = format(
                'replica %s has the changes up to batch %s, but batch %s comes next: the database is older than the '
                || 'checkpoint. Copy the tables again', i_replica, v_replica.last_batch, i_batch
            );
    end if;
    return v_replica.last_batch is null or i_batch > v_replica.last_batch;
end
$$;

-- Raise an error when the source table was altered: the log says so or, where it is not told, a row has columns that the
-- replica does not know, or lacks some. Locks nothing; returns nothing.
create or replace function rowbus_spark.check_changes(
    i_stage text, i_source text, i_columns text[], i_snapshot text
)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_there text[];
begin
    execute format(
        'select case when s.c5 in (''A'', ''N'') then ''{}'' else array(select jsonb_object_keys(s.c6)) end from %s as s '
        || 'where s.c1 = $1 and not pg_visible_in_snapshot(s.c4::text::xid8, $3::pg_snapshot) and ('
        || 's.c5 in (''A'', ''N'') or s.c5 <> ''T'' and (not s.c6 ?& $2 or s.c6 - $2 <> ''{}'')) order by s.c2 limit 1', i_stage
    ) into v_there using i_source, i_columns, i_snapshot;
    if v_there is not null then
        raise exception using
            errcode = '42P16',
            message = concat(
                format('table %s was altered', i_source),
                case when v_there <> '{}' then format(
                    ': its changes now have the columns %s, the replica has %s', array_to_string(v_there, ', '),
                    array_to_string(i_columns, ', ')
                ) end,
                '. Run rowbus spark replicate again: it copies this table anew'
            );
    end if;
end
$$;

-- Apply the changes of one table: those after its last TRUNCATE, and of each key the last one; of rows without a key, as
-- many come or go as were written more or less often than deleted. Locks the rows it writes, and the table for a TRUNCATE. Returns how many changes it looked at.
create or replace function rowbus_spark.apply_to_table(
    i_stage text, i_source text, i_target text, i_columns text[], i_key text[], i_snapshot text,
    i_operations text[]
)
returns bigint
language plpgsql
as $$
declare
    v_code pg_catalog.record := rowbus_spark.change_code(i_stage, i_target, i_columns, i_key);
    v_truncated bigint;
    v_count bigint;
begin
    if 'T' operator(pg_catalog.=) any(i_operations) then
        execute v_code.last_truncate into v_truncated using i_source, i_snapshot;
        if v_truncated is not null then
            perform rowbus_spark.empty_table(i_target);
        end if;
    end if;
    if 'D' operator(pg_catalog.=) any(i_operations) or rowbus_spark.replaces_rows(i_target, i_key) then
        execute v_code.removal using i_source, i_snapshot, v_truncated;
    end if;
    execute v_code.writing using i_source, i_snapshot, v_truncated;
    execute v_code.counting into v_count using i_source, i_snapshot;
    return v_count;
end
$$;

-- Say whether rows of a table have to go before they come back changed: another index than the key's must not see one row's
-- new value beside another's old one. Not where the deletion of a row does more than that. Locks nothing.
create or replace function rowbus_spark.replaces_rows(i_target text, i_key text[])
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        exists (
            select
            from pg_catalog.pg_index as i
            cross join lateral (
                select array_agg(a.attname::text) as names
                from pg_catalog.pg_attribute as a
                where a.attrelid = i.indrelid and a.attnum = any(i.indkey)
            ) as k
            where
                i.indrelid = i_target::regclass and (i.indisunique or i.indisexclusion) and i.indimmediate
                and not (k.names @> i_key and i.indpred is null)
        )
        and not exists (
            select
            from pg_catalog.pg_constraint as c
            where c.confrelid = i_target::regclass and c.contype = 'f' and (c.confdeltype <> 'a' or not c.condeferrable)
        )
$$;

-- Write the statements that apply a table's changes. $1: the source table, $2: the snapshot of its copy, $3: the event of
-- its last TRUNCATE. Values get the type of their column without modifiers, so that nothing is cut. Keys are written, too: equal
-- ones may look different (1.0 and 1.00, citext). Locks nothing.
create or replace function rowbus_spark.change_code(
    i_stage text, i_target text, i_columns text[], i_key text[],
    out last_truncate text, out removal text, out writing text, out counting text
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_new text := format(
        '%s as s where s.c1 operator(pg_catalog.=) $1 and not pg_catalog.pg_visible_in_snapshot('
        's.c4::pg_catalog.text::pg_catalog.xid8, $2::pg_catalog.pg_snapshot)', i_stage
    );
    v_names text;
    v_values text;
    v_changes text;
    v_key text;
    v_key_values text;
    v_set text;
    v_images text;
begin
    select
        string_agg(quote_ident(a.attname), ', ' order by a.attnum),
        string_agg(format('(s.c6 operator(pg_catalog.->>) %L)::%s', a.attname, rowbus_spark.type_name(a.atttypid)), ', ' order by a.attnum),
        string_agg(format('%1$I = excluded.%1$I', a.attname), ', ' order by a.attnum) filter (where a.attidentity <> 'a'),
        string_agg(quote_ident(a.attname), ', ' order by a.attnum) filter (where a.attname = any(i_key)),
        string_agg(format('(s.c6 operator(pg_catalog.->>) %L)::%s', a.attname, rowbus_spark.type_name(a.atttypid)), ', ' order by a.attnum)
            filter (where a.attname = any(i_key)),
        string_agg(format('t.%I', a.attname), ', ' order by a.attnum)
    into v_names, v_values, v_set, v_key, v_key_values, v_images
    from pg_catalog.pg_attribute as a
    where a.attrelid = i_target::regclass and a.attname = any(i_columns) and a.attnum > 0 and not a.attisdropped
    having count(*) = cardinality(i_columns);
    if v_names is null then
        raise exception using
            errcode = '42703', message = format('%s has not all the columns %s', i_target, array_to_string(i_columns, ', '));
    end if;
    v_changes := v_new || ' and s.c5 operator(pg_catalog.=) any(''{I,U,D}'') and ($3::bigint is null or s.c2 operator(pg_catalog.>) $3)';
    counting := 'select pg_catalog.count(*) from ' || v_new;
    last_truncate := format('select pg_catalog.max(s.c2) from %s and s.c5 operator(pg_catalog.=) ''T''', v_new);
    if v_key is null then
        select c.removal, c.writing into removal, writing
        from rowbus_spark.keyless_code(i_target, v_names, v_values, v_images, v_changes) as c;
        return;
    end if;
    removal := format(
        'delete from %s as t using (select distinct on (%2$s) s.c5, %2$s from %3$s order by %2$s, s.c2 desc, s.c3 desc) '
        || 'as last (operation, %4$s) where (%6$s or last.operation operator(pg_catalog.=) ''D'') and (%5$s)', i_target, v_key_values, v_changes, v_key,
        (
            select string_agg(format('t.%1$I %2$s last.%1$I', a.attname, rowbus_spark.equality(a.atttypid)), ' and ')
            from pg_catalog.pg_attribute as a
            where a.attrelid = i_target::regclass and a.attname = any(i_key) and a.attnum > 0 and not a.attisdropped
        ),
        rowbus_spark.replaces_rows(i_target, i_key)::text
    );
    writing := format(
        'insert into %s (%s) overriding system value select %s from ('
        || 'select distinct on (%4$s) s.c5, s.c6 from %5$s order by %4$s, s.c2 desc, s.c3 desc) as s '
        || 'where s.c5 operator(pg_catalog.<>) ''D'' on conflict (%6$s) do %7$s',
        i_target, v_names, v_values, v_key_values, v_changes, v_key,
        coalesce('update set ' || v_set, 'nothing')
    );
end
$$;

-- Write the statements that apply the changes of a table without a key. Rows are compared as texts, for not all types have
-- an equality, and counted, for equal rows are as many as in the source. i_images: the columns of a row t. Locks nothing.
create or replace function rowbus_spark.keyless_code(
    i_target text, i_names text, i_values text, i_images text, i_changes text,
    out removal text, out writing text
)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_counted text := format(
        '(select c.*, pg_catalog.sum(case when c.c5 operator(pg_catalog.=) ''I'' then 1 '
        || 'when c.c5 operator(pg_catalog.=) ''D'' then -1 end) over (partition by c.image) as surplus, '
        || 'pg_catalog.count(*) filter (where c.c5 operator(pg_catalog.=) ''I'') '
        || 'over (partition by c.image order by c.c2, c.c3) as nth '
        || 'from (select s.c2, s.c3, s.c5, s.c6, (row(%s))::pg_catalog.text as image from %s) as c)', i_values, i_changes
    );
begin
    removal := format(
        'delete from %1$s as r using (select t.tableoid as part, t.ctid as place, change.surplus, '
        || 'pg_catalog.row_number() over (partition by change.image) as nth from %1$s as t inner join '
        || '(select distinct s.image, s.surplus from %2$s as s where s.surplus operator(pg_catalog.<) 0) as change '
        || 'on (row(%3$s))::pg_catalog.text operator(pg_catalog.=) change.image) as gone '
        || 'where r.tableoid operator(pg_catalog.=) gone.part and r.ctid operator(pg_catalog.=) gone.place '
        || 'and gone.nth operator(pg_catalog.+) gone.surplus operator(pg_catalog.<=) 0', i_target, v_counted, i_images
    );
    writing := format(
        'insert into %s (%s) overriding system value select %s from %s as s '
        || 'where s.c5 operator(pg_catalog.=) ''I'' and s.nth operator(pg_catalog.<=) s.surplus order by s.c2',
        i_target, i_names, i_values, v_counted
    );
end
$$;
