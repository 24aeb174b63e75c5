-- Empty a table of a measurement.
-- Waits for transactions that use it; returns nothing.
truncate :"schema".:"table"
