-- Look at the sagas of an id, or found by a text, without keeping others from them.
-- Locks nothing; finds them by the table's two indexes. Returns their rows: one, none, or two if an id is another's text.
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
where correlation = :'key'::text or id = :'id'::uuid
