-- Set who may use the event log: 'new' separates readers, writers and administrators, 'old' grants everything to
-- PUBLIC.
-- Locks catalogue rows; returns 1.
select pgq.set_grants(:'style')
