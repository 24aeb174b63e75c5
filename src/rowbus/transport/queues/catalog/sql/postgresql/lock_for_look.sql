-- Keep a table as it is until the transaction ends: it cannot be renamed, dropped or given away meanwhile.
-- Locks the table as every reading does, and none of its children; returns nothing.
lock table only :"schema".:"queue" in access share mode
