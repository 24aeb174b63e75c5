-- Generate anew what has gone stale of the functions that capture tables. Locks the tables concerned for a moment.
-- Returns how many there were.
select pgq.maint_capture() as regenerated
