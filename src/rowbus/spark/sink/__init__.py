"""The sink of Spark: data frames and streams written to PostgreSQL, each micro-batch once."""
