-- Stream rows into a stage made in this transaction; frozen, so that nobody has to write hint bits when reading it.
-- Locks no row; returns nothing.
copy rowbus_spark.:"stage" from stdin (format binary, freeze true)
