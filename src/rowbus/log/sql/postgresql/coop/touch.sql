-- Give a sign of life for a subconsumer, so that no other subconsumer takes its batch over.
-- Locks its row for the moment. Returns 1, or 0 when it is no longer registered.
select pgq_coop.touch_subconsumer(:'log'::text, :'consumer'::text, :'subconsumer'::text) as touched
