"""The common part of queues and logs: rows in hand, handled in a transaction of ours."""
