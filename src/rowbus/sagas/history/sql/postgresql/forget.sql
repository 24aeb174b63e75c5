-- Delete what one saga did: it has completed, and completed ones are not kept.
-- Locks the rows it deletes, which belong to the saga that this transaction has locked. Returns nothing.
delete from :"schema".:"history" where saga_id = :'id'::uuid
