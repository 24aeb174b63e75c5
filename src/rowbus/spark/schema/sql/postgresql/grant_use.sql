-- Let a role write with Spark, and receive from queues with it: make stages and claims in schema rowbus_spark.
-- For the owner of the schema to run, after it was installed; locks the catalogue's rows; returns nothing.
grant usage, create on schema rowbus_spark to :"role";
grant select, insert, update, delete on all tables in schema rowbus_spark to :"role"
