-- Find the newest batch of an application in a table of a DuckLake.
-- Locks nothing; returns its number, no row where there is no table or no batch.
select b.number
from :"schema".rowbus_batch as b
inner join :"schema".ducklake_table as t using (table_id)
inner join :"schema".ducklake_schema as s using (schema_id)
where
    s.schema_name = :'namespace'::text
    and s.end_snapshot is null
    and t.table_name = :'table'::text
    and t.end_snapshot is null
    and b.app = :'app'::text
