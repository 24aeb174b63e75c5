-- Create the index by which the latest operations are found.
-- Locks the table against writers while it is made; returns nothing.
create index if not exists :"operations_began" on :"schema".:"operations" (began)
