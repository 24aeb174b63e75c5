-- Gather the planner's statistics of a log's previous table. Blocks no reader and no writer. Returns the table's name.
select pgq.maint_analyze(:'log'::text)
