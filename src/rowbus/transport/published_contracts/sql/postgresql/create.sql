-- Create the table of the contracts that endpoints published: a row an endpoint and version, until it is forgotten.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"contracts" (
    endpoint text not null,
    version text not null,
    document text not null,
    published timestamptz not null default now(),
    seen timestamptz not null default now(),
    primary key (endpoint, version)
)
