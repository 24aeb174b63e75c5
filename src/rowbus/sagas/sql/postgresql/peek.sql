-- Look at the sagas that go on, those first that have changed least recently, without keeping others from them.
-- Locks nothing; reads the whole table. Returns the rows of at most `most` sagas.
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
order by changed
limit :'most'::integer
