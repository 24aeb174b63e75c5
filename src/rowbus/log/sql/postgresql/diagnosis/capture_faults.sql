-- Look at captured tables for what hides rows of them, or changes what is written: row security that applies to this role,
-- and, for triggers of PgQ's form, settings of this database and of roles that change the text of values.
-- Locks nothing. Returns a row a trigger that has one or the other: log, table, whether rows are hidden, and the settings.
with given as (
    select
        role.rolname,
        split_part(setting.text, '=', 1) as name,
        substr(setting.text, strpos(setting.text, '=') + 1) as value,
        setting.text
    from pg_catalog.pg_db_role_setting as stored
    cross join lateral unnest(stored.setconfig) as setting (text)
    left join pg_catalog.pg_roles as role on stored.setrole = role.oid
    left join pg_catalog.pg_database as base on stored.setdatabase = base.oid
    where stored.setdatabase = 0 or base.datname = current_database()
),

telling as (
    select
        array_agg(
            coalesce('role ' || quote_ident(given.rolname), 'the database') || ' has ' || given.text
        ) as settings
    from given
    where
        case lower(given.name)
            when 'datestyle' then given.value !~* '^\s*iso'
            when 'extra_float_digits' then given.value::int < 1
            when 'intervalstyle' then lower(given.value) <> 'postgres'
            when 'bytea_output' then lower(given.value) <> 'hex'
            when 'standard_conforming_strings' then lower(given.value) in ('off', 'false', 'no', '0')
            when 'quote_all_identifiers' then lower(given.value) in ('on', 'true', 'yes', '1')
            else false
        end
),

judged as (
    select
        status.queue_name,
        status.table_id::regclass::text as table_name,
        status.trigger_name,
        row_security_active(status.table_id) as is_hidden,
        case
            when 'exact' = any(status.arguments) then '{}'::text[]
            else coalesce(telling.settings, '{}'::text[])
        end as settings
    from pgq.capture_status as status
    cross join telling
)

select
    judged.queue_name,
    judged.table_name,
    judged.is_hidden,
    judged.settings
from judged
where
    (judged.is_hidden or judged.settings <> '{}')
    and (:'log'::text is null or judged.queue_name = :'log'::text)
order by judged.queue_name, judged.table_name, judged.trigger_name
