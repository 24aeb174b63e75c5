-- Have the server plan as it did before plan_by_index.sql was run in this transaction; as by default, if it was not.
-- Locks nothing; returns rows that mean nothing.
select
    pg_catalog.set_config(
        setting.name, pg_catalog.current_setting('rowbus.' || setting.name, true), true
    ) as now
from (
    values
    ('enable_bitmapscan'),
    ('enable_indexscan'),
    ('enable_seqscan'),
    ('enable_sort'),
    ('jit'),
    ('cpu_operator_cost')
) as setting (name)
