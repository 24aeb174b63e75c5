-- End a pause.
-- Locks the row it deletes, and waits for who writes it; the row count is the answer.
delete from :"schema".:"pauses"
where kind = :'kind'::text
    and name = :'name'::text
