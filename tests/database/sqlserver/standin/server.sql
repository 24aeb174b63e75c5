-- What SQL Server has and PostgreSQL has not: the catalogue views, functions and types our T-SQL asks for.
-- Run once in each database of the stand-in.
create schema sys;
create schema dbo;

create function sys.make_domain(name text, base text) returns void language plpgsql as $$
begin
    if to_regtype('sys.' || quote_ident(name)) is null then
        execute format('create domain sys.%I as %s', name, base);
    end if;
exception when duplicate_object or unique_violation then null;
end $$;

select sys.make_domain(name, base)
from (values
    ('bit', 'smallint'), ('uniqueidentifier', 'uuid'), ('datetime', 'timestamp(3)'), ('datetime2', 'timestamp(6)'),
    ('nvarchar(max)', 'text'), ('varbinary(max)', 'bytea'), ('varchar(255)', 'varchar(255)'),
    ('nvarchar(200)', 'varchar(200)'), ('nvarchar(250)', 'varchar(250)'), ('nvarchar(255)', 'varchar(255)')
) as wanted (name, base);

-- T-SQL converts a text that is compared with a value of another type, or written as one.
create cast (varchar as uuid) with inout as implicit;
create cast (varchar as bigint) with inout as implicit;

create function sys.getutcdate() returns timestamp(3) language sql stable as
$$ select date_trunc('milliseconds', statement_timestamp() at time zone 'UTC')::timestamp(3) $$;
create function sys.sysutcdatetime() returns timestamp language sql stable as
$$ select statement_timestamp() at time zone 'UTC' $$;
create function sys.getdate() returns timestamp(3) language sql stable as $$ select sys.getutcdate() $$;
create function sys.newid() returns uuid language sql volatile as $$ select gen_random_uuid() $$;

create function sys.unit(part text) returns interval language sql immutable strict as $$
    select case
        when part in ('ms', 'millisecond') then interval '1 millisecond'
        when part in ('s', 'ss', 'second') then interval '1 second'
        when part in ('mi', 'n', 'minute') then interval '1 minute'
        when part in ('hh', 'hour') then interval '1 hour'
        when part in ('d', 'dd', 'day') then interval '1 day'
        when part in ('mcs', 'microsecond') then interval '1 microsecond'
    end
$$;

create function sys.dateadd(part text, number bigint, moment timestamp) returns timestamp language plpgsql stable as $$
begin
    if number not between -2147483648 and 2147483647 then
        raise exception 'Arithmetic overflow error converting expression to data type int.' using errcode = '22003';
    end if;
    return moment + number * sys.unit(part);
end $$;

-- Counts boundaries crossed, as T-SQL does.
create function sys.datediff_big(part text, a timestamp, b timestamp) returns bigint language sql stable as $$
    select floor(extract(epoch from b) / extract(epoch from sys.unit(part)))::bigint
        - floor(extract(epoch from a) / extract(epoch from sys.unit(part)))::bigint
$$;
create function sys.len(value text) returns integer language sql immutable as $$ select length(rtrim(value)) $$;
create function sys.datalength(value bytea) returns bigint language sql immutable as $$ select octet_length(value) $$;
create function sys.datalength(value text) returns bigint language sql immutable as $$ select 2 * length(value) $$;
create function sys.charindex(sought text, value text) returns integer language sql immutable as
$$ select strpos(lower(value), lower(sought)) $$;
create function sys.quotename(value text) returns text language sql immutable as
$$ select '[' || replace(value, ']', ']]') || ']' $$;
create function sys.nchar(code integer) returns text language sql immutable as $$ select chr(code) $$;
create function sys.string_split(value text, separator text) returns table (value text) language sql immutable as
$$ select unnest from unnest(string_to_array($1, $2)) $$;
-- The parts of a name, brackets taken off.
create function sys.parts(name text) returns text[] language sql immutable as $$
    select array_agg(coalesce(replace(found[1], ']]', ']'), found[2]))
    from regexp_matches(name, '\[((?:[^\]]|\]\])*)\]|([^.\[\]]+)', 'g') as found
$$;
create function sys.object_id(name text, kind text default null) returns integer language sql stable as $$
    select c.oid::integer
    from pg_class as c
        inner join pg_namespace as n on c.relnamespace = n.oid,
        sys.parts(name) as p (part)
    where c.relkind = 'r'
        and lower(c.relname) = lower(part[array_length(part, 1)])
        and lower(n.nspname) = lower(case
            when array_length(part, 1) < 2 then 'dbo'
            when array_length(part, 1) = 3 and lower(part[1]) <> lower(current_database())
                then part[1] || ':' || part[2]
            else part[array_length(part, 1) - 1]
        end)
$$;
create function sys.schema_id(name text) returns integer language sql stable as
$$ select oid::integer from pg_namespace where lower(nspname) = lower(name) $$;
create function sys.ident_current(name text) returns bigint language plpgsql stable as $$
declare
    place text := pg_get_serial_sequence(sys.object_id(name)::regclass::text, 'rowversion');
    answer bigint;
begin
    execute format('select case when is_called then last_value else 1 end from %s', place) into answer;
    return answer;
end $$;
create function sys.has_perms_by_name(name text, kind text, permission text) returns integer language sql stable as
$$ select case when permission = 'SELECT' or has_table_privilege(sys.object_id(name), permission) then 1 else 0 end $$;

create view sys.databases as
select
    datname::text as name, oid::integer as database_id, 1 as is_read_committed_snapshot_on,
    160 as compatibility_level, 0 as is_read_only, 0 as delayed_durability,
    (pg_postmaster_start_time() at time zone 'UTC')::timestamp(3) as create_date
from pg_database
where not datistemplate
union all
select 'tempdb', 2, 0, 160, 0, 0, (pg_postmaster_start_time() at time zone 'UTC')::timestamp(3);

create view sys.schemas as
select nspname::text as name, oid::integer as schema_id from pg_namespace;

create view sys.objects as
select
    c.relname::text as name, c.oid::integer as object_id, c.relnamespace::integer as schema_id, 'U ' as type,
    'USER_TABLE' as type_desc, timestamp '2026-01-01' as create_date
from pg_class as c
where c.relkind = 'r' and c.relnamespace::regnamespace::text not in ('pg_catalog', 'information_schema', 'sys', 'pg_toast');

create view sys.tables as select * from sys.objects;

create view sys.types as
select
    split_part(t.typname, '(', 1) as name, t.oid::integer as user_type_id, t.oid::integer as system_type_id
from pg_type as t
where t.typnamespace = 'sys'::regnamespace and t.typtype = 'd'
union all
select found.name, found.id::regtype::integer, found.id::regtype::integer
from (values ('bigint', 'bigint'), ('int', 'integer'), ('smallint', 'smallint')) as found (name, id);

create view sys.columns as
select
    a.attrelid::integer as object_id, a.attname::text as name, a.attnum::integer as column_id,
    a.atttypid::integer as user_type_id, a.atttypid::integer as system_type_id,
    case
        when t.typname like '%(max)' then -1
        when t.typname ~ '^n.*\(\d+\)$' then 2 * substring(t.typname from '\d+')::integer
        when t.typname ~ '\(\d+\)$' then substring(t.typname from '\d+')::integer
        when t.typname = 'uniqueidentifier' then 16
        when t.typname = 'bit' then 1
        else 8
    end as max_length,
    (not a.attnotnull)::integer as is_nullable,
    (a.attidentity <> '')::integer as is_identity,
    (a.attgenerated <> '')::integer as is_computed
from pg_attribute as a
    inner join pg_type as t on a.atttypid = t.oid
    inner join sys.objects as o on a.attrelid::integer = o.object_id
where a.attnum > 0 and not a.attisdropped;

create view sys.all_columns as select * from sys.columns;

create view sys.indexes as
select
    i.indrelid::integer as object_id, split_part(c.relname, '|', -1) as name, i.indexrelid::integer as index_id,
    2 as type, 'NONCLUSTERED' as type_desc, i.indisunique::integer as is_unique,
    i.indisprimary::integer as is_primary_key, (i.indpred is not null)::integer as has_filter
from pg_index as i
    inner join pg_class as c on i.indexrelid = c.oid
    inner join sys.objects as o on i.indrelid::integer = o.object_id;

create view sys.index_columns as
select
    i.indrelid::integer as object_id, i.indexrelid::integer as index_id, k.place::integer as index_column_id,
    k.number::integer as column_id,
    case when k.place <= i.indnkeyatts then k.place else 0 end::integer as key_ordinal,
    (k.place > i.indnkeyatts)::integer as is_included_column, 0 as is_descending_key
from pg_index as i, unnest(i.indkey::smallint[]) with ordinality as k (number, place);

create view sys.dm_exec_sessions as
select
    pid as session_id, application_name as program_name, usename::text as login_name, host(client_addr) as host_name,
    case when state like 'idle%' then 'sleeping' else 'running' end as status,
    (state_change at time zone 'UTC')::timestamp as last_request_end_time,
    (select oid from pg_database where datname = s.datname)::integer as database_id,
    1 as is_user_process,
    case when xact_start is null then 0 else 1 end as open_transaction_count
from pg_stat_activity as s
where backend_type = 'client backend' and datname = current_database();

-- What sp_getapplock was asked for, for a lock of PostgreSQL's does not know its name.
create table sys.applocks (key bigint primary key, resource text not null);
create function sys.db_id() returns integer language sql stable as
$$ select oid::integer from pg_database where datname = current_database() $$;
create view sys.dm_tran_locks as
select
    l.pid as request_session_id, 'APPLICATION' as resource_type, 'GRANT' as request_status,
    l.database::integer as resource_database_id,
    format('0:[%s]:(%s)', left(a.resource, 32), left(md5(a.resource), 8)) as resource_description
from pg_locks as l
inner join sys.applocks as a on a.key = (l.classid::bigint << 32) | l.objid::bigint
where l.locktype = 'advisory' and l.granted and l.objsubid = 1;

create view sys.partitions as
select c.oid::integer as object_id, 0 as index_id, greatest(c.reltuples, 0)::bigint as rows
from pg_class as c where c.relkind = 'r';
