"""Queues as a source of Spark: a look that takes nothing, and a competing consumer."""
