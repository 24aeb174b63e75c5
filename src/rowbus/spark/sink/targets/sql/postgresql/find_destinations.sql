-- Find where the rows of a stage want to go: what its first column says.
-- Locks nothing; returns each destination once.
select distinct s.c1 as destination
from rowbus_spark.:"stage" as s
order by s.c1
