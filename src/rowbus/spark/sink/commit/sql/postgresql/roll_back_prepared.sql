-- Roll a prepared transaction back, and so give up its locks; not to be run in another one.
-- Returns nothing; fails with 42704 when there is none of that name (any more).
rollback prepared :'gid'
