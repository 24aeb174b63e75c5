-- Create the table of who subscribes to what, exactly as NServiceBus creates it (names, types and order of the columns).
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"table" (
    queueaddress varchar(200) not null,
    endpoint varchar(200) not null,
    topic varchar(200) not null,
    primary key (endpoint, topic)
)
