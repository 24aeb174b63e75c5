-- Say where sequences stand. Waits for who alters or drops one: to be run where waits are short.
-- Locks the sequences for the time of the transaction, against that alone; returns schema, name and position (null: unused,
-- or not for this role to see).
select
    namespace.nspname::text as schema,
    counter.relname::text as name,
    case
        when has_sequence_privilege(counter.oid, 'select, usage') then pg_sequence_last_value(counter.oid)
    end as position
from unnest(:'schemas'::text[], :'sequences'::text[]) as named (schema, name)
inner join pg_catalog.pg_namespace as namespace on namespace.nspname = named.schema::name
inner join pg_catalog.pg_class as counter
    on
        namespace.oid = counter.relnamespace
        and counter.relname = named.name::name
where counter.relkind = 'S'
