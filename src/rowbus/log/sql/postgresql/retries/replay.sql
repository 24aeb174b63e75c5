-- Have dead letters delivered to their consumer again, all or those given, as if for the first time.
-- Deletes them and inserts into the retry queue, due now. Returns how many.
select pgq.dead_letter_replay(:'log'::text, :'consumer'::text, :'ids'::bigint[]) as replayed
