-- Create the table that a handler writes to.
-- Locks nothing that exists; returns nothing.
create table :"schema".orders (
    id bigint generated always as identity primary key,
    order_id text not null,
    total double precision not null
)
