-- Give a sign of life for a member of a cooperative consumer, so that nobody takes its batch over.
-- Locks its row for the moment. Returns 1, or 0 when it is no longer a member.
select pgq_coop.touch_subconsumer(:'log'::text, :'consumer'::text, :'subconsumer'::text) as touched
