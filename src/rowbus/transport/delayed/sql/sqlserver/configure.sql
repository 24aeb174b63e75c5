-- Make a session fit for moving, against any defaults of the driver: READ COMMITTED, and not waiting longer than five
-- seconds for a locked table (then it fails with 1222).
-- Locks nothing; returns nothing. To be run without parameters: in a prepared batch these settings would end with it.
set transaction isolation level read committed;
set lock_timeout 5000;
