-- Limit how long this transaction waits for a lock, unless the role has set a limit: the lock may be held by another
-- part of the same batch, which ends only after this one.
-- Locks nothing; returns one row.
select
    set_config(
        'lock_timeout',
        case current_setting('lock_timeout')
            when '0' then :'wait'::text
            else current_setting('lock_timeout')
        end,
        true
    ) as wait
