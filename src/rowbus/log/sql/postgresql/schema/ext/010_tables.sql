-- Create the schema pgq_ext: what a consumer remembers in another database than the queue's, in the transaction that
-- applies a batch there, so that the batch takes effect once. A consumer without subconsumers has the empty name.
-- Locks what is created; returns nothing.
create schema if not exists pgq_ext;

create table if not exists pgq_ext.completed_tick (
    consumer_id text not null,
    subconsumer_id text not null,
    last_tick_id bigint not null,
    constraint completed_tick_pkey primary key (consumer_id, subconsumer_id)
);

create table if not exists pgq_ext.completed_batch (
    consumer_id text not null,
    subconsumer_id text not null,
    last_batch_id bigint not null,
    constraint completed_batch_pkey primary key (consumer_id, subconsumer_id)
);

-- Events of the batch in partial_batch only: those of an older batch go when the next one begins.
create table if not exists pgq_ext.completed_event (
    consumer_id text not null,
    subconsumer_id text not null,
    batch_id bigint not null,
    event_id bigint not null,
    constraint completed_event_pkey primary key (consumer_id, subconsumer_id, batch_id, event_id)
);

create table if not exists pgq_ext.partial_batch (
    consumer_id text not null,
    subconsumer_id text not null,
    cur_batch_id bigint not null,
    constraint partial_batch_pkey primary key (consumer_id, subconsumer_id)
);
