-- Note that an operation begins.
-- Locks the row it writes; the row count is the answer.
insert into :"schema".:"operations" (id, person, action, queue, subject, meant)
values (
    :'id'::text, :'person'::text, :'action'::text, :'queue_name'::text, :'subject'::text, :'meant'::integer
)
