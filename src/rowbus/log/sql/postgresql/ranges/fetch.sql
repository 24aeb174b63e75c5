-- Read on in the range that ranges/open.sql opened.
-- Locks nothing. Returns up to so many events: the columns of pgq.get_batch_events.
fetch forward :'chunk_size' from :"cursor"
