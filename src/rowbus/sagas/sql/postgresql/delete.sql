-- Delete a saga that is complete, unless another has written it since it was found.
-- Its row is locked by this transaction already; waits for nothing. Returns nothing; affects one row, or none.
delete from :"schema".:"saga"
where id = :'id'::uuid and concurrency = :'concurrency'::integer
