-- Delete up to `batch_size` messages whose time to be received is over, oldest first.
-- Passes over rows in flight, so it never waits; the row count is the answer.
delete from :"schema".:"queue" as outdated
where outdated.id = any(array(
    select message.id
    from :"schema".:"queue" as message
    where message.expires <= now() at time zone 'UTC'
    order by message.seq
    limit :'batch_size'::integer
    for update skip locked
))
