-- Look at captured tables for what hides rows of them, changes what is written, or keeps it from being written: row security
-- that applies to this role; for triggers of PgQ's form, settings of this database and of roles that change the text of
-- values; triggers that are disabled; and those that do not fire for replication, where a subscription or a setting makes some.
-- Locks nothing. Returns a row a trigger that has any of them, in the order of `CaptureFault` in log/diagnosis.py.
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
            when 'datestyle' then given.value !~* e'^\\s*iso'
            when 'extra_float_digits' then given.value::int < 1
            when 'intervalstyle' then lower(given.value) <> 'postgres'
            when 'bytea_output' then lower(given.value) <> 'hex'
            when 'standard_conforming_strings' then lower(given.value) in ('off', 'false', 'no', '0')
            when 'quote_all_identifiers' then lower(given.value) in ('on', 'true', 'yes', '1')
            else false
        end
),

replicating as (
    select
        coalesce(
            bool_or(lower(given.name) = 'session_replication_role' and lower(given.value) = 'replica'), false
        ) as is_set
    from given
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
        end as settings,
        firing.disabled,
        firing.unreplicated
    from pgq.capture_status as status
    cross join telling
    cross join replicating
    cross join lateral (
        select
            coalesce(
                array_agg(placed.name order by placed.name) filter (where placed.fires in ('D', 'R')), '{}'
            ) as disabled,
            coalesce(
                array_agg(placed.name order by placed.name)
                filter (where placed.fires = 'O' and placed.is_replicated),
                '{}'
            ) as unreplicated
        from (
            select
                quote_ident(trigger.tgname) as name,
                trigger.tgenabled as fires,
                replicating.is_set
                or exists (
                    select from pg_catalog.pg_subscription_rel as fed where fed.srrelid = trigger.tgrelid
                ) as is_replicated
            from pg_catalog.pg_trigger as trigger
            where
                trigger.tgrelid = status.table_id
                and trigger.tgname in (
                    status.trigger_name,
                    status.trigger_name || '_truncate',
                    status.trigger_name || '_truncating'
                )
        ) as placed
    ) as firing
)

select
    judged.queue_name,
    judged.table_name,
    judged.is_hidden,
    judged.settings,
    judged.disabled,
    judged.unreplicated
from judged
where
    (judged.is_hidden or judged.settings || judged.disabled || judged.unreplicated <> '{}')
    and (:'log'::text is null or judged.queue_name = :'log'::text)
order by judged.queue_name, judged.table_name, judged.trigger_name
