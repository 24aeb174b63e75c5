-- Look at the messages behind a place, in the order of their time, whose headers hold a text (empty: all), in any case.
-- Reads at most `most_read` messages, so that it ends soon in a large table. Locks nothing.
-- Returns id, due, headers and size of the body of at most `most` messages.
select
    read.id::text as id,
    least(greatest(read.due, '0001-01-02 00:00+00'), '9999-12-31 00:00+00') as due,
    left(read.headers, 1048576) as headers,
    coalesce(octet_length(read.body), 0) as size
from (
    select
        waiting.id,
        waiting.due,
        waiting.headers,
        waiting.body
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
    limit :'most_read'::integer
) as read
where :'text'::text = '' or strpos(lower(read.headers), lower(:'text'::text)) > 0
order by read.due, read.id
limit :'most'::integer
