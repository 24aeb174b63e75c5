-- Take a replica for this transaction, so that only one process fills it; make it if it is missing. From here on
-- PostgreSQL reads values as exact captures write them: settings of the database and the role change nothing.
-- Waits for other transactions that lock it. Returns its last batch, null when there was none, and settings.
insert into rowbus_spark.replica as r (replica)
values (:'replica'::text)
on conflict (replica) do update set replica = excluded.replica
returning r.last_batch, set_config('array_nulls', 'on', true), set_config('xmloption', 'content', true)
