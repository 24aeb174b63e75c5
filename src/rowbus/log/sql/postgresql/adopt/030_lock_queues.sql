-- Keep queues from being created, dropped and rotated while their functions are replaced.
-- Locks pgq.queue against writers, until the end of the transaction; returns nothing.
lock table pgq.queue in share row exclusive mode;
