-- Drop a database that was made for tests, ending the sessions still in it; cannot run inside a transaction.
-- Locks nothing else; returns nothing.
drop database if exists :"database" with (force)
