-- Make this transaction's commit wait for the disk, against the role's settings (Spark never repeats a batch that was
-- reported as committed), and make it scan stages from their first row, which keeps their order.
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
