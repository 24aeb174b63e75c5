-- Read on in the batch that open_batch.sql opened.
-- Locks nothing. Returns up to so many events: the columns of pgq.get_batch_events.
fetch forward :'chunk_size' from rowbus_batch
