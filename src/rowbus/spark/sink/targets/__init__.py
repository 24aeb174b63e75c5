"""Targets of the sink: logs, queues, tables, replicas and dead letters; one module for each value of `deliver`."""
