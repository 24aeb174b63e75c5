-- Make the schema of the replica. Returns nothing.
create schema rowbus_demo_replica
