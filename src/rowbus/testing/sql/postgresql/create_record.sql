-- Create the record of what is sent in a test: a table, and the function that triggers on queues call. What is undone
-- is not in it. Locks nothing that exists but its own function; returns nothing.
create schema if not exists rowbus_testing;

create table if not exists rowbus_testing.sent (
    position bigint generated always as identity,
    place text not null,
    headers text not null,
    body bytea,
    due timestamptz
);

create or replace function rowbus_testing.note_sent()
returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    insert into rowbus_testing.sent (place, headers, body, due)
    values (tg_argv[0], new.headers, new.body, (to_jsonb(new) ->> 'due')::timestamptz);
    return null;
end
$$
