-- Let a role do what one of PgQ's roles may do.
-- Locks a catalogue row; returns nothing.
grant :"privileges" to :"role"
