-- Have no statement of this session wait for a lock longer than ten seconds (then it fails with 1222): for a store's own
-- connections.
-- Locks nothing; returns nothing. To be run without parameters: in a prepared batch the setting would end with it.
set lock_timeout 10000;
