-- Ask how many prepared transactions the server allows.
-- Locks nothing; returns one number.
select current_setting('max_prepared_transactions')::int4 as most
