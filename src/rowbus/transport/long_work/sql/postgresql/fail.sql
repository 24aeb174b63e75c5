-- Count a failed attempt at running work, if it is still held under this epoch.
-- Locks the row; the row count is the answer: 1, or 0 when another process has it.
update :"schema".:"running"
set failures = failures + 1
where id = :'id'::uuid and epoch = :'epoch'::int
