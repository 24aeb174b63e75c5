-- Create the tables and sequences of PgQ, with its names, columns and constraints: they are the interface of every
-- tool that reads them. Locks what is created; returns nothing.
create table if not exists pgq.consumer (
    co_id serial,
    co_name text not null,
    constraint consumer_pkey primary key (co_id),
    constraint consumer_name_uq unique (co_name)
);

create table if not exists pgq.queue (
    queue_id serial,
    queue_name text not null,
    queue_ntables integer not null default 3,
    queue_cur_table integer not null default 0,
    queue_rotation_period interval not null default '2 hours',
    queue_switch_step1 bigint not null default txid_current(),
    queue_switch_step2 bigint default txid_current(),
    queue_switch_time timestamptz not null default now(),
    queue_external_ticker boolean not null default false,
    queue_disable_insert boolean not null default false,
    queue_ticker_paused boolean not null default false,
    queue_ticker_max_count integer not null default 500,
    queue_ticker_max_lag interval not null default '3 seconds',
    queue_ticker_idle_period interval not null default '1 minute',
    queue_per_tx_limit integer,
    queue_data_pfx text not null,
    queue_event_seq text not null,
    queue_tick_seq text not null,
    queue_extra_maint text[],
    constraint queue_pkey primary key (queue_id),
    constraint queue_name_uq unique (queue_name)
);

create table if not exists pgq.tick (
    tick_queue int4 not null,
    tick_id bigint not null,
    tick_time timestamptz not null default now(),
    tick_snapshot txid_snapshot not null default txid_current_snapshot(),
    tick_event_seq bigint not null,
    constraint tick_pkey primary key (tick_queue, tick_id),
    constraint tick_queue_fkey foreign key (tick_queue) references pgq.queue (queue_id)
);

create sequence if not exists pgq.batch_id_seq;

-- `sub_id` is not unique: cooperative subconsumers share their main consumer's.
create table if not exists pgq.subscription (
    sub_id serial not null,
    sub_queue int4 not null,
    sub_consumer int4 not null,
    sub_last_tick bigint,
    sub_active timestamptz not null default now(),
    sub_batch bigint,
    sub_next_tick bigint,
    constraint subscription_pkey primary key (sub_queue, sub_consumer),
    constraint subscription_batch_idx unique (sub_batch),
    constraint sub_queue_fkey foreign key (sub_queue) references pgq.queue (queue_id),
    constraint sub_consumer_fkey foreign key (sub_consumer) references pgq.consumer (co_id)
);

-- What the tables of every queue inherit from; it holds no rows itself.
create table if not exists pgq.event_template (
    ev_id bigint not null,
    ev_time timestamptz not null,
    ev_txid bigint not null default txid_current(),
    ev_owner int4,
    ev_retry int4,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
);

create table if not exists pgq.retry_queue (
    ev_retry_after timestamptz not null,
    ev_queue int4 not null,
    ev_id bigint not null,
    ev_time timestamptz not null,
    ev_txid bigint,
    ev_owner int4 not null,
    ev_retry int4,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    constraint rq_pkey primary key (ev_owner, ev_id),
    constraint rq_queue_id_fkey foreign key (ev_queue) references pgq.queue (queue_id)
);

create index if not exists rq_retry_idx on pgq.retry_queue (ev_retry_after);
