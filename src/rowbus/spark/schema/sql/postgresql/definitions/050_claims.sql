-- Create the claims: messages that a Spark query has taken out of a queue and works on, one row a message.
-- A message is in its queue's table or here, never in both: it is moved in one transaction, there and back.
-- `claim_consumer` holds how far each consumer has acknowledged. `claimed_message` has no foreign key: its check would
-- cost as much as the row; the statements that end a claim delete both. `row_id` and `row_seq` are the queue's `id` and
-- `seq`, under names that no queue has. Locks what is created; returns nothing.
create table if not exists rowbus_spark.claim_consumer (
    queue text not null,
    consumer text not null,
    acked bigint not null default 0,
    constraint claim_consumer_pkey primary key (queue, consumer)
);

create table if not exists rowbus_spark.claim (
    id bigint generated always as identity,
    queue text not null,
    consumer text not null,
    number bigint not null,
    state text not null default 'held',
    messages bigint not null,
    archive boolean not null default false,
    claimed_at timestamptz not null default now(),
    lease_until timestamptz not null,
    ended_at timestamptz,
    constraint claim_pkey primary key (id),
    constraint claim_number_key unique (queue, consumer, number),
    constraint claim_state_check check (state in ('held', 'acked', 'archived', 'returned'))
);

create table if not exists rowbus_spark.claimed_message (
    claim_id bigint not null,
    position bigint not null,
    row_id uuid not null,
    expires timestamp without time zone,
    headers text not null,
    body bytea,
    row_seq integer not null,
    constraint claimed_message_pkey primary key (claim_id, position)
);
