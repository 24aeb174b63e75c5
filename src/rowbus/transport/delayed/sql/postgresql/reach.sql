-- Say where a search ends that reads `most_read` messages from behind a place, in the order of their time.
-- Reads them by the index of times. Locks nothing; returns one row, id and due; no row when there are not so many.
select
    waiting.id::text as id,
    least(greatest(waiting.due, '0001-01-02 00:00+00'), '9999-12-31 00:00+00') as due
from :"schema".:"delayed" as waiting
where
    (waiting.due, waiting.id)
    > (
        coalesce(
                case
                    when :'after_due'::timestamptz = '9999-12-31 00:00+00' then 'infinity' else
                        :'after_due'::timestamptz
                end,
                '-infinity'
            ),
        coalesce(:'after_id'::uuid, '00000000-0000-0000-0000-000000000000')
    )
order by waiting.due, waiting.id
limit 1
offset :'most_read'::integer - 1
