-- Delete a saga that is complete from .NET's table, unless another has written it since it was found.
-- Its row is locked by this transaction already; waits for nothing. Returns nothing; affects one row, or none.
delete from :"schema".:"shared_saga"
where "Id" = :'id'::uuid and "Concurrency" = :'concurrency'::integer
