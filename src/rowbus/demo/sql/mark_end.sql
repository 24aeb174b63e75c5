-- Take a transaction number later than all changes committed so far, and have the ticker tick soon.
-- Locks nothing; returns one row: the number.
select txid_current() as mark
from pgq.force_tick(:'log'::text)
