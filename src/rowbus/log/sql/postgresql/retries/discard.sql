-- Delete single dead letters of a consumer, by their ids.
-- Locks what it deletes. Returns how many.
select pgq.dead_letter_discard(:'log'::text, :'consumer'::text, :'ids'::bigint[]) as discarded
