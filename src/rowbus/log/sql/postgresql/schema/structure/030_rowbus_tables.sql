-- Create what Rowbus adds to PgQ's tables: the version of this schema, and options of queues.
-- A column is never added to PgQ's own tables: other tools restore them from dumps of the real thing.
-- Locks what is created; returns nothing.
create table if not exists pgq.schema_version (
    version int4 not null,
    installed_at timestamptz not null default now(),
    constraint schema_version_pkey primary key (version)
);

-- An option that is NULL is not set: the ticker or the consumer then uses its own default.
create table if not exists pgq.queue_option (
    qo_queue int4 not null,
    qo_tick_period interval,
    qo_max_retries int4,
    constraint queue_option_pkey primary key (qo_queue),
    constraint queue_option_queue_fkey foreign key (qo_queue)
    references pgq.queue (queue_id) on delete cascade,
    constraint queue_option_tick_period_ck check (qo_tick_period > interval '0'),
    constraint queue_option_max_retries_ck check (qo_max_retries >= 0)
);
alter table pgq.queue_option add column if not exists qo_ordered_ticks boolean;
