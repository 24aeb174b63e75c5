"""What queues and logs have in common: rows in hand, handled in a transaction of ours."""
