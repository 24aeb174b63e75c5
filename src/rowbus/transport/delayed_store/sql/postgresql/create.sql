-- Create the table of a delayed message store if it is missing: NServiceBus's for MSMQ, in PostgreSQL's types.
-- `state` is the body, `time` when the message is due. The key on time and id is there for its index, which finds
-- what is due and what is next. Locks nothing that exists; returns nothing. Two creators at once: one of them may
-- fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"store" (
    id varchar(250) not null primary key,
    destination text not null,
    state bytea not null,
    time timestamp with time zone not null,
    headers bytea not null,
    retry_count integer not null default 0,
    unique (time, id)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
)
