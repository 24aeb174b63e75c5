-- List the tables of the replicas in this database that stand still, and why; none of what older versions made.
-- Locks nothing. Returns a row a table, in the order of `ReplicaFault` in log/diagnosis.py.
select
    t.replica,
    t.source_table,
    to_jsonb(t) ->> 'fault' as fault
from rowbus_spark.replica_table as t
where to_jsonb(t) ->> 'fault' is not null
order by t.replica, t.source_table
