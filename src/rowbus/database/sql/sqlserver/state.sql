-- Say what has become of the session's transaction: how many are open, whether it is doomed (-1), and whether the session
-- begins transactions by itself (2 of @@options).
-- Locks nothing; returns one row with three integers. To be run without parameters, as transaction control is.
select
    @@trancount as open_transactions,
    xact_state() as state,
    @@options & 2 as implicit_transactions;
