-- Mark the schema as ours, so that the next run knows that it may drop it. Returns nothing.
comment on schema rowbus_demo is 'made by `rowbus demo`, which drops and makes it anew at every run'
