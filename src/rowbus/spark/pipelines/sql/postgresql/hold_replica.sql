-- Take a replica for this transaction, so that only one process fills it; make it if it is missing.
-- Waits for other transactions that lock it. Returns its last batch, null when there was none.
insert into rowbus_spark.replica as r (replica)
values (:'replica'::text)
on conflict (replica) do update set replica = excluded.replica
returning r.last_batch
