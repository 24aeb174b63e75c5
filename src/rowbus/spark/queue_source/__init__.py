"""Queues as a source of Spark: `mode=peek` takes nothing, `mode=receive` is a competing consumer."""
