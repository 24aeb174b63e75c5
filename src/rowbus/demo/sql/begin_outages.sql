-- Have two banks be down: one until a charge is retried later, one until somebody mends it.
-- Locks no row that exists; returns nothing.
insert into rowbus_demo.outages (token, retries)
values
('tok_sleepy_bank', 1),
('tok_broken_bank', null)
