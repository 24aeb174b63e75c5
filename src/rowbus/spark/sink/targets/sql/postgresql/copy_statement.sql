-- Ask for the COPY that takes rows of these types straight into a table.
-- Locks nothing; returns the statement, or null if a type differs.
select rowbus_spark.copy_statement(:'table'::regclass, :'names'::text[], :'types'::text[]) as statement
