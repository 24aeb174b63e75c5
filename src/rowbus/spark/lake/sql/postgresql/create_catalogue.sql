-- Make the tables of a DuckLake's catalogue, as version 1.0 of its specification has them, and one of ours.
-- For a schema that has none; locks what it makes, until the end of the transaction; returns nothing. `rowbus_batch` has
-- the newest batch of each application in a table.
create table :"schema".ducklake_column (
    column_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    table_id bigint,
    column_order bigint,
    column_name text,
    column_type text,
    initial_default text,
    default_value text,
    nulls_allowed boolean,
    parent_column bigint,
    default_value_type text,
    default_value_dialect text
);

create table :"schema".ducklake_column_mapping (
    mapping_id bigint,
    table_id bigint,
    type text
);

create table :"schema".ducklake_column_tag (
    table_id bigint,
    column_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    key text,
    value text
);

create table :"schema".ducklake_data_file (
    data_file_id bigint primary key,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    file_order bigint,
    path text,
    path_is_relative boolean,
    file_format text,
    record_count bigint,
    file_size_bytes bigint,
    footer_size bigint,
    row_id_start bigint,
    partition_id bigint,
    encryption_key text,
    mapping_id bigint,
    partial_max bigint
);

create table :"schema".ducklake_delete_file (
    delete_file_id bigint primary key,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    data_file_id bigint,
    path text,
    path_is_relative boolean,
    format text,
    delete_count bigint,
    file_size_bytes bigint,
    footer_size bigint,
    encryption_key text,
    partial_max bigint
);

create table :"schema".ducklake_file_column_stats (
    data_file_id bigint,
    table_id bigint,
    column_id bigint,
    column_size_bytes bigint,
    value_count bigint,
    null_count bigint,
    min_value text,
    max_value text,
    contains_nan boolean,
    extra_stats text
);

create table :"schema".ducklake_file_partition_value (
    data_file_id bigint,
    table_id bigint,
    partition_key_index bigint,
    partition_value text
);

create table :"schema".ducklake_file_variant_stats (
    data_file_id bigint,
    table_id bigint,
    column_id bigint,
    variant_path text,
    shredded_type text,
    column_size_bytes bigint,
    value_count bigint,
    null_count bigint,
    min_value text,
    max_value text,
    contains_nan boolean,
    extra_stats text
);

create table :"schema".ducklake_files_scheduled_for_deletion (
    data_file_id bigint,
    path text,
    path_is_relative boolean,
    schedule_start timestamptz
);

create table :"schema".ducklake_inlined_data_tables (
    table_id bigint,
    table_name text,
    schema_version bigint
);

create table :"schema".ducklake_macro (
    schema_id bigint,
    macro_id bigint,
    macro_name text,
    begin_snapshot bigint,
    end_snapshot bigint
);

create table :"schema".ducklake_macro_impl (
    macro_id bigint,
    impl_id bigint,
    dialect text,
    sql text,
    type text
);

create table :"schema".ducklake_macro_parameters (
    macro_id bigint,
    impl_id bigint,
    column_id bigint,
    parameter_name text,
    parameter_type text,
    default_value text,
    default_value_type text
);

create table :"schema".ducklake_metadata (
    key text not null,
    value text not null,
    scope text,
    scope_id bigint
);

create table :"schema".ducklake_name_mapping (
    mapping_id bigint,
    column_id bigint,
    source_name text,
    target_field_id bigint,
    parent_column bigint,
    is_partition boolean
);

create table :"schema".ducklake_partition_column (
    partition_id bigint,
    table_id bigint,
    partition_key_index bigint,
    column_id bigint,
    transform text
);

create table :"schema".ducklake_partition_info (
    partition_id bigint,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint
);

create table :"schema".ducklake_schema (
    schema_id bigint primary key,
    schema_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_name text,
    path text,
    path_is_relative boolean
);

create table :"schema".ducklake_schema_versions (
    begin_snapshot bigint,
    schema_version bigint,
    table_id bigint
);

create table :"schema".ducklake_snapshot (
    snapshot_id bigint primary key,
    snapshot_time timestamptz,
    schema_version bigint,
    next_catalog_id bigint,
    next_file_id bigint
);

create table :"schema".ducklake_snapshot_changes (
    snapshot_id bigint primary key,
    changes_made text,
    author text,
    commit_message text,
    commit_extra_info text
);

create table :"schema".ducklake_sort_expression (
    sort_id bigint,
    table_id bigint,
    sort_key_index bigint,
    expression text,
    dialect text,
    sort_direction text,
    null_order text
);

create table :"schema".ducklake_sort_info (
    sort_id bigint,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint
);

create table :"schema".ducklake_table (
    table_id bigint,
    table_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_id bigint,
    table_name text,
    path text,
    path_is_relative boolean
);

create table :"schema".ducklake_table_column_stats (
    table_id bigint,
    column_id bigint,
    contains_null boolean,
    contains_nan boolean,
    min_value text,
    max_value text,
    extra_stats text
);

create table :"schema".ducklake_table_stats (
    table_id bigint,
    record_count bigint,
    next_row_id bigint,
    file_size_bytes bigint
);

create table :"schema".ducklake_tag (
    object_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    key text,
    value text
);

create table :"schema".ducklake_view (
    view_id bigint,
    view_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_id bigint,
    view_name text,
    dialect text,
    sql text,
    column_aliases text
);

create table :"schema".rowbus_batch (
    table_id bigint,
    app text,
    number bigint not null,
    primary key (table_id, app)
)
