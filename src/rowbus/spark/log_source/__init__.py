"""The log as a source of Spark: a batch or a stream whose offsets are snapshots of the database."""
