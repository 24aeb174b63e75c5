-- Write a saga's state into its row of .NET's table, unless another has written it since it was found, and
-- which program that was.
-- Its row is locked by this transaction already; waits for nothing. Returns nothing; affects one row, or none.
update :"schema".:"shared_saga"
set
    "Data" = :'state'::jsonb,
    "PersistenceVersion" = 'rowbus',
    "SagaTypeVersion" = '0.0',
    "Concurrency" = "Concurrency" + 1
where "Id" = :'id'::uuid and "Concurrency" = :'concurrency'::integer
