-- Note how an operation ended, unless it has ended.
-- Locks the row, and waits for a transaction that has it locked; the row count is the answer.
update :"schema".:"operations" as operation
set
    state = :'state'::text,
    result = :'result'::text,
    noted = now()
where operation.id = :'id'::text
    and operation.state in ('running', 'stopping')
