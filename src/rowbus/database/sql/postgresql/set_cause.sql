-- Say what causes the changes that this transaction makes from here on: `rowbus.cause` is all of it as JSON, which triggers
-- of captured tables write beside a change; the others are its parts, for triggers and views of one's own. What is not
-- known is the empty text. It ends with the transaction, and is undone with a savepoint.
-- Locks nothing; returns the texts.
select
    pg_catalog.set_config('rowbus.cause', :'cause'::text, true) as cause,
    pg_catalog.set_config('rowbus.message_id', :'message_id'::text, true) as message_id,
    pg_catalog.set_config('rowbus.conversation_id', :'conversation_id'::text, true) as conversation_id,
    pg_catalog.set_config('rowbus.message_type', :'message_type'::text, true) as message_type,
    pg_catalog.set_config('rowbus.handler', :'handler'::text, true) as handler,
    pg_catalog.set_config('rowbus.endpoint', :'endpoint'::text, true) as endpoint,
    pg_catalog.set_config('rowbus.user', :'user'::text, true) as "user",
    pg_catalog.set_config('rowbus.request', :'request'::text, true) as request
