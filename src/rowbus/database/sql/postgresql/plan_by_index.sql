-- Have the server plan by indexes in this transaction, under any statistics. What was set before is kept for
-- plan_freely.sql. `operator_cost`, if not null, makes planning dear, so that the server prefers a plan that it can keep.
-- Locks nothing; returns rows that mean nothing.
select
    pg_catalog.set_config('rowbus.' || setting.name, pg_catalog.current_setting(setting.name), true) as kept,
    pg_catalog.set_config(setting.name, setting.value, true) as now
from (
    values
    ('enable_bitmapscan', 'off'),
    ('enable_indexscan', 'on'),
    ('enable_seqscan', 'off'),
    ('enable_sort', 'off'),
    ('jit', 'off'),
    ('cpu_operator_cost', coalesce(:'operator_cost'::text, pg_catalog.current_setting('cpu_operator_cost')))
) as setting (name, value)
