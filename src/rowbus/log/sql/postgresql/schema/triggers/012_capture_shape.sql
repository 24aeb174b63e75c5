-- The shapes that the logs were told captured tables have, the newest of a trigger last, and the events that told them
-- (none of the first): cs_change is their data. cs_state: captured, dropped (the table) or released. cs_attributes is the
-- greatest number that a column had, cs_file the file of the rows: they say what earlier rows may hold.
create table if not exists pgq.capture_shape (
    cs_id int8 not null generated always as identity,
    cs_queue text not null,
    cs_table oid not null,
    cs_trigger text not null,
    cs_state text not null default 'captured',
    cs_shape jsonb not null,
    cs_attributes int2,
    cs_file oid,
    cs_event int8,
    cs_time timestamptz not null default now(),
    cs_change jsonb,
    constraint capture_shape_pkey primary key (cs_id)
);
create index if not exists capture_shape_table_idx
on pgq.capture_shape (cs_table, cs_queue, cs_trigger, cs_id);
