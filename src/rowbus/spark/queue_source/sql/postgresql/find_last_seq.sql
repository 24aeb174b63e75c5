-- Say which message is the newest of a queue now, those in somebody's hands included.
-- Locks nothing; returns one row with one number, null when the queue is empty.
select max(message.seq)
from :"schema".:"queue" as message
