-- Ask for nothing: what it takes is the way to the server and back.
-- Locks nothing; returns one row.
select 1 as one
