-- Keep one part of a value, in the transaction that sends its message, for so long by the database's clock.
-- Locks the row it inserts; no other transaction has its id, so it never waits. Returns nothing.
insert into :"schema".:"claimed" (id, part, parts, keep_until, content)
values (
    :'value_id'::uuid,
    :'part'::integer,
    :'parts'::integer,
    now() + :'keep_for'::interval,
    :'content'::bytea
)
