-- Create the index by which values are found that nothing needs any more.
-- Locks the table against writers while it is made; returns nothing.
create index if not exists :"keep_until_index" on :"schema".:"claimed" (keep_until)
