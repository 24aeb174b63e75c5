-- Let time pass for delayed messages: all of a table become due so much earlier, and keep their order and distances.
-- Locks all rows of the table, waiting for a mover that moves some; returns nothing.
update :"schema".:"delayed"
set due = due - :'time'::interval
