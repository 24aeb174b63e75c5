-- Create the table of what a saga did: one row for each transition, numbered from 1 for each saga. Rows never change.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"history" (
    saga_id uuid not null,
    number integer not null,
    correlation text not null,
    message_id text not null,
    message_type text not null,
    before jsonb,
    after jsonb not null,
    is_completed boolean not null,
    at timestamp with time zone not null default clock_timestamp(),
    constraint :"history_key" primary key (saga_id, number)
)
