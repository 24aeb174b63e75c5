-- Create the index in whose order delayed messages become due; NServiceBus gives it the same name.
-- Locks the table against writers, which a table just made does not have; returns nothing.
create index if not exists :"due_index" on :"schema".:"delayed" (due)
