-- Note in a transaction that will be prepared that it committed, for whoever asks after it is gone.
-- Locks nothing; returns nothing.
insert into rowbus_spark.prepared_part (gid)
values (:'gid')
