-- Have this transaction give up waiting for a lock after a time, unless the role has set another: what it waits for may
-- be another part of its own batch, which ends only after it.
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
