-- Keep running work from others until the transaction ends, if it is still held under this epoch, also when its lease is
-- over: what commits with it is not too late. The server ends a session that is silent in it for as long as a lease.
-- Locks the row against being taken and removed, and not against other changes: people may see how far it is, and cancel
-- it. Returns a row, or none when another process has it.
select held.id
from :"schema".:"running" as held
cross join (
    select
        pg_catalog.set_config(
            'idle_in_transaction_session_timeout',
            (extract(epoch from :'lease'::interval) * 1000)::bigint::text,
            true
        ) as silence
) as limited
where held.id = :'id'::uuid and held.epoch = :'epoch'::int and limited.silence is not null
for key share of held
