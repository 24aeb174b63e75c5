-- Create the table of a saga as NServiceBus.Persistence.Sql has it, found by a text: one row for each one that goes on.
-- "Concurrency" counts the writes of a row, 0 is one that begins in its transaction.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"shared_saga" (
    "Id" uuid not null primary key,
    "Metadata" text not null,
    "Data" jsonb not null,
    "PersistenceVersion" character varying(23),
    "SagaTypeVersion" character varying(23),
    "Concurrency" integer not null,
    :"correlation_column" character varying(200)
)
