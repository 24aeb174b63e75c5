-- Hold running work for longer, if it is still held under this epoch: so that what commits with it is not too late.
-- The server ends a session that is silent in this transaction for as long as a lease: a process that is frozen keeps
-- no row from the others.
-- Locks the row until the transaction ends; the row count is the answer: 1, or 0 when another process has it.
update :"schema".:"running" as held
set lease = clock_timestamp() + :'lease'::interval
from (
    select
        pg_catalog.set_config(
            'idle_in_transaction_session_timeout',
            (extract(epoch from :'lease'::interval) * 1000)::bigint::text,
            true
        ) as silence
) as limited
where held.id = :'id'::uuid and held.epoch = :'epoch'::int and limited.silence is not null
