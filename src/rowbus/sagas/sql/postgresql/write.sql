-- Write a saga's state into its row, unless another has written it since it was found; the timeouts that it waits for stay
-- as they are when the text for them is null.
-- Its row is locked by this transaction already; waits for nothing. Returns nothing; affects one row, or none.
update :"schema".:"saga"
set
    state = :'state'::jsonb,
    version = :'version'::integer,
    timeouts = coalesce(:'timeouts'::jsonb, timeouts),
    concurrency = concurrency + 1,
    changed = now()
where id = :'id'::uuid and concurrency = :'concurrency'::integer
