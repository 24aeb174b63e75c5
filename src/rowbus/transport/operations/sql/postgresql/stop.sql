-- Ask an operation to stop, in the process that runs it.
-- Locks the row, and waits for a transaction that has it locked; the row count is the answer, 0 if it does not run.
update :"schema".:"operations" as operation
set state = 'stopping'
where operation.id = :'id'::text
    and operation.state = 'running'
