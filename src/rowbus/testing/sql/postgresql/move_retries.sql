-- Put the events whose retry is due back into their logs, as the ticker's maintenance does.
-- Locks the rows it moves; returns one row: how many.
select pgq.maint_retry_events()
