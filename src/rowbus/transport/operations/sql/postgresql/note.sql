-- Add to an operation what the transaction did.
-- Locks the row, and waits for a transaction that has it locked; returns its state, nothing if there is no such row.
update :"schema".:"operations" as operation
set
    done = operation.done + :'done'::integer,
    stayed = operation.stayed + :'stayed'::integer,
    noted = now()
where operation.id = :'id'::text
returning operation.state
