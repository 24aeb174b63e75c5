-- Say, in the batch between two messages, that the transaction of the first was committed.
-- Locks nothing; returns one row, known by its column.
select 1 as rowbus_committed;
