-- Stop writing a table's changes to a log.
-- Locks the table. Returns how many triggers were dropped.
select pgq.release_table(:'table'::text::regclass, :'log'::text) as dropped
