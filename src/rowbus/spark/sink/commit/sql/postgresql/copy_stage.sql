-- Stream rows into a stage made in this transaction; frozen, so that reading it writes no hint bits.
-- Locks no row; returns nothing.
copy rowbus_spark.:"stage" from stdin (format binary, freeze true)
