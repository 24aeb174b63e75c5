-- Mend what an older schema lacks: roles, columns, the generated functions; other tools call it after an upgrade.
-- Locks catalogue rows, and pgq.queue and pgq.subscription if there is something to mend; returns 0.
create or replace function pgq.upgrade_schema()
returns int
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    if to_regrole('pgq_reader') is null then
        create role pgq_reader;
    end if;
    if to_regrole('pgq_writer') is null then
        create role pgq_writer;
    end if;
    if to_regrole('pgq_admin') is null then
        create role pgq_admin in role pgq_reader, pgq_writer;
    end if;
    if exists (
        select from pg_attribute
        where attrelid = 'pgq.subscription'::regclass and attname = 'sub_last_tick' and attnotnull
    ) then
        alter table pgq.subscription alter column sub_last_tick drop not null;
    end if;
    if not exists (
        select from pg_attribute
        where attrelid = 'pgq.queue'::regclass and attname = 'queue_extra_maint' and not attisdropped
    ) then
        alter table pgq.queue add column queue_extra_maint text[];
    end if;
    perform pgq._generate_inserts();
    return 0;
end;
$$;
