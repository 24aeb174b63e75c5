-- Look at the sagas that go on, in the order of the texts that find them, after one of these: a page, by the index of texts.
-- Locks nothing; reads on from there until it has `most` whose text begins as asked, all do if nothing is. Returns the rows.
select
    id::text,
    correlation,
    state::text,
    version,
    concurrency,
    originator,
    original_message_id,
    timeouts::text,
    began,
    changed
from :"schema".:"saga"
where correlation > :'after'::text and starts_with(correlation, :'beginning'::text)
order by correlation
limit :'most'::integer
