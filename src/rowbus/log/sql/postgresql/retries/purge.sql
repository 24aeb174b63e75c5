-- Delete a consumer's dead letters, all or those from before a time.
-- Locks what it deletes. Returns how many.
select pgq.dead_letter_purge(:'log'::text, :'consumer'::text, :'before'::timestamptz) as purged
