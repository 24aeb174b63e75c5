-- Delete the row of running work that is done, in the transaction that holds it.
-- Locks the row; returns nothing.
delete from :"schema".:"running"
where id = :'id'::uuid
