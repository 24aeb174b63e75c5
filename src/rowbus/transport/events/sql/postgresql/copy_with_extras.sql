-- Stream events into a log's current table, as copy.sql does, with their extras.
-- Locks no row; returns nothing.
copy :"schema".:"table" (ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
from stdin (format binary)
