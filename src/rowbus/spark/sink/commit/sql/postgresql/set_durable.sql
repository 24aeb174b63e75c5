-- Have this transaction's commit wait for the disk whatever the role's settings say (Spark never asks again for a batch
-- that we said was there), and have it read stages from their first row, so that order is kept.
-- Locks nothing; returns one row.
select
    set_config(
        'synchronous_commit',
        case current_setting('synchronous_commit')
            when 'off' then 'on'
            else current_setting('synchronous_commit')
        end,
        true
    ) as durable,
    set_config('synchronize_seqscans', 'off', true) as in_order
