-- Gather the planner's statistics of a table, which nobody else does: autovacuum is off for the tables of events.
-- Blocks no reader and no writer. Returns nothing.
analyze :"schema".:"table"
