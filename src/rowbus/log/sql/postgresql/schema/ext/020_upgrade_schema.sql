-- Give tables that were made before there were subconsumers (pgq_ext 2) their column `subconsumer_id`.
-- Locks each such table exclusively; returns how many there were.
create or replace function pgq_ext.upgrade_schema()
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    old record;
    upgraded int4 := 0;
begin
    for old in
        select t.name, t.rest
        from (values
            ('completed_tick', ''),
            ('completed_batch', ''),
            ('completed_event', ', batch_id, event_id'),
            ('partial_batch', '')
        ) as t (name, rest)
        where not exists (
            select from pg_attribute as a
            where a.attrelid = to_regclass('pgq_ext.' || t.name) and a.attname = 'subconsumer_id'
        )
    loop
        execute format('alter table pgq_ext.%I add column subconsumer_id text not null default %L', old.name, '');
        execute format('alter table pgq_ext.%I alter column subconsumer_id drop default', old.name);
        execute format('alter table pgq_ext.%1$I drop constraint if exists %2$I', old.name, old.name || '_pkey');
        execute format(
            'alter table pgq_ext.%1$I add constraint %2$I primary key (consumer_id, subconsumer_id%3$s)',
            old.name, old.name || '_pkey', old.rest
        );
        upgraded := upgraded + 1;
    end loop;
    return upgraded;
end;
$$;

do $$ begin perform pgq_ext.upgrade_schema(); end; $$;
