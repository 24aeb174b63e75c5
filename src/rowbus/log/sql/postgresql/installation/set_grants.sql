-- Set who may use the event log: 'new' separates readers, writers and administrators, 'old' lets everybody do all.
-- Locks catalogue rows; returns 1.
select pgq.set_grants(:'style')
