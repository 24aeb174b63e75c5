-- Change the columns of a table in a DuckLake: some end with a snapshot, others begin with it.
-- `ended` has their numbers, `begun` an array of objects. A column with another name or type ends and begins with the
-- same number. Run it once, in a snapshot that has begun; locks its rows; returns nothing.
with ended as (
    update :"schema".ducklake_column
    set end_snapshot = :'snapshot'::bigint
    where
        table_id = :'table_id'::bigint
        and end_snapshot is null
        and column_id = any(:'ended'::bigint[])
),

versioned as (
    insert into :"schema".ducklake_schema_versions (begin_snapshot, schema_version, table_id)
    values (:'snapshot'::bigint, :'schema_version'::bigint, :'table_id'::bigint)
),

begun as (
    select c.*
    from jsonb_to_recordset(:'begun'::jsonb) as c (
        id bigint, place bigint, name text, type text, filled text, parent bigint
    )
)

insert into :"schema".ducklake_column (
    column_id,
    begin_snapshot,
    table_id,
    column_order,
    column_name,
    column_type,
    initial_default,
    default_value,
    nulls_allowed,
    parent_column,
    default_value_type,
    default_value_dialect
)
select
    c.id as column_id,
    :'snapshot'::bigint as begin_snapshot,
    :'table_id'::bigint as table_id,
    c.place as column_order,
    c.name as column_name,
    c.type as column_type,
    c.filled as initial_default,
    'NULL' as default_value,
    true as nulls_allowed,
    c.parent as parent_column,
    'literal' as default_value_type,
    'duckdb' as default_value_dialect
from begun as c
