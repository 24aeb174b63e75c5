-- Write a saga's state into its row, unless another has written it since it was found.
-- Its row is locked by this transaction already; waits for nothing. Returns nothing; affects one row, or none.
update :"schema".:"saga"
set
    state = :'state'::jsonb,
    version = :'version'::integer,
    concurrency = concurrency + 1,
    changed = now()
where id = :'id'::uuid and concurrency = :'concurrency'::integer
