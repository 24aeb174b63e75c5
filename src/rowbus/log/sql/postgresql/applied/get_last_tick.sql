-- Ask up to which tick a consumer has applied its log in this database.
-- Locks nothing. Returns the tick, or NULL.
select pgq_ext.get_last_tick(:'consumer'::text, :'subconsumer'::text) as tick
