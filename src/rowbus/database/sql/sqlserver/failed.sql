-- Say which statement of the batch between two messages failed, by its place.
-- Locks nothing; returns one row, known by its column. `@place` is the batch's.
select @place as rowbus_failed;
