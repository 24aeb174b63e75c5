"""Schema `rowbus_spark`: what Rowbus keeps in a database for Spark."""
