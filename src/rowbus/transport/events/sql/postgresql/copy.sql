-- Stream events without extras into a log's current table; the fastest way in. `ev_id` comes from the log's sequence,
-- which is how the ticker hears of them.
-- Locks no row; returns nothing.
copy :"schema".:"table" (ev_time, ev_type, ev_data) from stdin (format binary)
