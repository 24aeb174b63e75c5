-- Note how far running work is, if it is still held under this epoch.
-- Locks the row; the row count is the answer: 1, or 0 when another process has it.
update :"schema".:"running"
set
    progress = :'fraction'::float8,
    note = :'note'::text
where id = :'id'::uuid and epoch = :'epoch'::int
