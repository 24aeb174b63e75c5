-- Find the `seq` of a queue's newest message, locked ones included.
-- Locks nothing; returns one row with one number, null when the queue is empty.
select max(message.seq)
from :"schema".:"queue" as message
