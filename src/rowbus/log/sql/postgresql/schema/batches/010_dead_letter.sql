-- Create the table of dead letters: events that a consumer gave up on, with the reason, as they were in their batch.
-- They go with their queue, and with their consumer when it is unregistered.
-- Locks what is created; returns nothing.
create table if not exists pgq.dead_letter (
    dl_id bigserial not null,
    dl_time timestamptz not null default now(),
    dl_queue int4 not null,
    dl_consumer int4 not null,
    dl_reason text,
    ev_id bigint not null,
    ev_time timestamptz not null,
    ev_txid bigint,
    ev_retry int4,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    constraint dead_letter_pkey primary key (dl_id),
    constraint dead_letter_queue_fkey
    foreign key (dl_queue) references pgq.queue (queue_id) on delete cascade,
    constraint dead_letter_consumer_fkey
    foreign key (dl_consumer) references pgq.consumer (co_id) on delete cascade
);

create index if not exists dead_letter_consumer_idx on pgq.dead_letter (dl_queue, dl_consumer, dl_id);
