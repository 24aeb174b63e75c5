-- Count the rows of a stage: none are left of an unlogged table after a crash of the server.
-- Locks nothing; returns one number.
select count(*) as row_count
from rowbus_spark.:"stage"
