-- Say up to which position the queue is filled, so that what comes later is left out of what follows.
-- Locks nothing; returns one row with one integer, null for an empty queue.
select max(message.seq)
from :"schema".:"queue" as message
