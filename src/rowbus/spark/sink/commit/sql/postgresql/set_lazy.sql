-- Let this transaction's commit not wait for the disk: a stage that is lost fails its batch, which Spark repeats.
-- Locks nothing; returns one row.
select set_config('synchronous_commit', 'off', true) as lazy
