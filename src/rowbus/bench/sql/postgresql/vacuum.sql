-- Have the planner know how full a table is, as autovacuum does sooner or later. Outside of a transaction.
-- Waits for others who change the table's definition or vacuum it; returns nothing.
vacuum (analyze) :"schema".:"table"
