-- Drop the replica that the last run has left. Waits for whoever uses it; returns nothing.
drop schema rowbus_demo_replica cascade
