-- Create the table of the messages that an endpoint has processed: one row a message id, for as long as it is remembered.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"inbox" (
    message_key text not null primary key,
    accepted timestamp with time zone not null default now()
)
