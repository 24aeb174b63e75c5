-- Change the files of a table in a DuckLake: some end with a snapshot, others begin with it.
-- `ended` has data files and `undone` those whose deletions end, by their numbers; `added` and `deletions` are arrays of
-- objects, `bounds` that of columns of new files. Run it once, in a snapshot that has begun; locks the rows it ends;
-- returns nothing.
with ended as (
    update :"schema".ducklake_data_file
    set end_snapshot = :'snapshot'::bigint
    where
        table_id = :'table_id'::bigint
        and end_snapshot is null
        and data_file_id = any(:'ended'::bigint[])
),

undone as (
    update :"schema".ducklake_delete_file
    set end_snapshot = :'snapshot'::bigint
    where
        table_id = :'table_id'::bigint
        and end_snapshot is null
        and data_file_id = any(:'undone'::bigint[])
),

added as (
    select
        f.*,
        coalesce((
            select s.next_row_id
            from :"schema".ducklake_table_stats as s
            where s.table_id = :'table_id'::bigint
        ), 0) + sum(f.rows) over (order by f.id) - f.rows as first_row
    from jsonb_to_recordset(:'added'::jsonb) as f (id bigint, path text, rows bigint, size bigint)
),

counted as (
    select
        coalesce(sum(added.rows), 0) as rows,
        coalesce(sum(added.size), 0) as size
    from added
),

grown as (
    update :"schema".ducklake_table_stats as s
    set
        record_count = s.record_count + counted.rows,
        next_row_id = s.next_row_id + counted.rows,
        file_size_bytes = s.file_size_bytes + counted.size
    from counted
    where s.table_id = :'table_id'::bigint
    returning s.table_id
),

begun as (
    insert into :"schema".ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes)
    select
        :'table_id'::bigint as table_id,
        counted.rows as record_count,
        counted.rows as next_row_id,
        counted.size as file_size_bytes
    from counted
    where not exists (select from grown)
),

deletions as (
    insert into :"schema".ducklake_delete_file (
        delete_file_id,
        table_id,
        begin_snapshot,
        data_file_id,
        path,
        path_is_relative,
        format,
        delete_count,
        file_size_bytes
    )
    select
        d.id as delete_file_id,
        :'table_id'::bigint as table_id,
        :'snapshot'::bigint as begin_snapshot,
        d.of as data_file_id,
        d.path,
        true as path_is_relative,
        'parquet' as format,
        d.rows as delete_count,
        d.size as file_size_bytes
    from jsonb_to_recordset(:'deletions'::jsonb) as d (
        id bigint, of bigint, path text, rows bigint, size bigint
    )
),

bounds as (
    insert into :"schema".ducklake_file_column_stats (
        data_file_id, table_id, column_id, value_count, null_count, min_value, max_value
    )
    select
        b.file as data_file_id,
        :'table_id'::bigint as table_id,
        b.column as column_id,
        b.values as value_count,
        b.nulls as null_count,
        b.least as min_value,
        b.greatest as max_value
    from jsonb_to_recordset(:'bounds'::jsonb) as b (
        file bigint, "column" bigint, "values" bigint, nulls bigint, least text, greatest text
    )
)

insert into :"schema".ducklake_data_file (
    data_file_id,
    table_id,
    begin_snapshot,
    path,
    path_is_relative,
    file_format,
    record_count,
    file_size_bytes,
    row_id_start
)
select
    added.id as data_file_id,
    :'table_id'::bigint as table_id,
    :'snapshot'::bigint as begin_snapshot,
    added.path,
    true as path_is_relative,
    'parquet' as file_format,
    added.rows as record_count,
    added.size as file_size_bytes,
    added.first_row as row_id_start
from added
