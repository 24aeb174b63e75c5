-- Create the index by which old rows are found.
-- Locks the table against writers while it is made; returns nothing.
create index if not exists :"accepted_index" on :"schema".:"inbox" (accepted)
