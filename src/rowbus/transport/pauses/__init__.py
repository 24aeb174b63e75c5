"""What operators have paused: endpoints, queues, consumers of logs, recurring messages; a table of our own."""
