-- Keep tables as they are until the transaction ends: they cannot be renamed, dropped or given away meanwhile.
-- Locks each table as every reading does, and none of its children; returns nothing.
lock table /* each */ only :"schema".:"queue" /* end */ in access share mode
