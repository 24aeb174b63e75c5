-- Describe a table of a DuckLake as the newest snapshot has it: its columns, and its files with their deletions.
-- Locks nothing; returns one row of one JSON object: of a table that is not there only `schema_id`, if its schema is.
select
    jsonb_build_object(
        'schema_id', s.schema_id,
        'table_id', t.table_id,
        'columns', (
            select
                jsonb_agg(
                    jsonb_build_object(
                        'id', c.column_id,
                        'name', c.column_name,
                        'type', c.column_type,
                        'place', c.column_order,
                        'filled', c.initial_default,
                        'parent', c.parent_column
                    )
                    order by c.column_order
                )
            from :"schema".ducklake_column as c
            where c.table_id = t.table_id and c.end_snapshot is null
        ),
        'last_column', (
            select max(c.column_id)
            from :"schema".ducklake_column as c
            where c.table_id = t.table_id
        ),
        'files', (
            select
                jsonb_agg(
                    jsonb_build_object(
                        'id', f.data_file_id,
                        'path', f.path,
                        'rows', f.record_count,
                        'size', f.file_size_bytes,
                        'deletes', d.path,
                        'deleted', d.delete_count
                    )
                    order by f.data_file_id
                )
            from :"schema".ducklake_data_file as f
            left join :"schema".ducklake_delete_file as d
                on f.data_file_id = d.data_file_id and d.end_snapshot is null
            where f.table_id = t.table_id and f.end_snapshot is null
        )
    )
from (values (:'namespace'::text, :'table'::text)) as named (namespace, name)
left join :"schema".ducklake_schema as s
    on named.namespace = s.schema_name and s.end_snapshot is null
left join :"schema".ducklake_table as t
    on s.schema_id = t.schema_id and named.name = t.table_name and t.end_snapshot is null
