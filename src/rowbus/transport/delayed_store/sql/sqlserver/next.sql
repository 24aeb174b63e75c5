-- Say when the earliest message is due, also when it is in flight: update locks do not keep others from reading.
-- Keeps no lock; waits for a transaction that is removing or storing the earliest. Returns one row with one time (UTC),
-- null when nothing is kept.
select min([Time]) as due
from [$(catalog)].[$(schema)].[$(store)];
