"""Where data frames and streams are written: logs, queues, tables and dead letters, each micro-batch once."""
