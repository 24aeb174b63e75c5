"""Delta, Iceberg and DuckLake tables as sinks of Spark, without a jar."""
