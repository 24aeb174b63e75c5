"""The pauses that operators made: endpoints, queues, consumers of logs, recurring messages; a table of our own."""
