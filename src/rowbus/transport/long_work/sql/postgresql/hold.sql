-- Hold running work for longer, if it is still held under this epoch: so that what commits with it is not too late.
-- Locks the row until the transaction ends; the row count is the answer: 1, or 0 when another process has it.
update :"schema".:"running"
set lease = clock_timestamp() + :'lease'::interval
where id = :'id'::uuid and epoch = :'epoch'::int
