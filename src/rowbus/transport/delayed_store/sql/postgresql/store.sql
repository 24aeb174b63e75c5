-- Keep a message until it is due; one that is kept already, by its id, stays as it is.
-- Waits for a transaction that stores or removes a message of the same id; returns nothing.
insert into :"schema".:"store" (id, destination, state, time, headers)
values (
    :'message_id'::varchar,
    :'destination'::text,
    :'body'::bytea,
    :'time'::timestamptz,
    :'headers'::bytea
)
on conflict (id) do nothing
