-- Empty tables that foreign keys connect, at once. Locks them until the transaction ends. Returns nothing.
select rowbus_spark.empty_tables(:'targets'::text[]) as done
