"""Delta and Iceberg tables as sinks of Spark, without a jar."""
