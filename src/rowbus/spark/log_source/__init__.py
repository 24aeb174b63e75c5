"""Logs as a source of Spark: batches and streams whose offsets are snapshots of the database."""
