-- Write the mark of a transaction that will be prepared; the mark is visible once the transaction has committed.
-- Locks nothing; returns nothing.
insert into rowbus_spark.prepared_part (gid)
values (:'gid')
