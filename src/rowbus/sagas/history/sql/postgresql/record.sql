-- Keep what a message did to a saga, in the transaction in which it did.
-- Locks only the row it inserts; the saga is locked by this transaction, so nothing else writes this number. Returns nothing.
insert into :"schema".:"history" (
    saga_id, number, correlation, message_id, message_type, before, after, is_completed
)
values (
    :'saga_id'::uuid,
    :'number'::integer,
    :'correlation'::text,
    :'message_id'::text,
    :'message_type'::text,
    :'before'::jsonb,
    :'after'::jsonb,
    :'is_completed'::integer::boolean
)
