-- Put events of a batch aside as dead letters of its consumer, each with its reason.
-- Inserts into pgq.dead_letter. Returns how many were put there.
select pgq.events_dead(:'batch'::bigint, :'events'::bigint[], :'reasons'::text[]) as dead
