-- Mark the replica's schema as ours, so that the next run knows that it may drop it. Returns nothing.
comment on schema rowbus_demo_replica is 'made by `rowbus demo`, which drops and makes it anew at every run'
