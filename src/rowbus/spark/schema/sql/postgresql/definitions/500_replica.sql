-- What a database remembers of the replicas in it: how far each has come, and which tables it consists of, each with the
-- snapshot in which it was copied. A change is applied if its transaction is not visible in that snapshot, so that
-- copy and changes meet without a gap and without overlap. `query_id` tells whose batches `last_batch` counts. Locks what is created; returns nothing.
create table if not exists rowbus_spark.replica (
    replica text not null,
    query_id text,
    last_batch bigint,
    changed_at timestamptz not null default now(),
    constraint replica_pkey primary key (replica)
);

-- `source_table` is as triggers write it; `target` a quoted name; `column_names` and `key_columns` those that are captured.
create table if not exists rowbus_spark.replica_table (
    replica text not null,
    source_table text not null,
    target text not null,
    column_names text[] not null,
    key_columns text[] not null,
    copied_in text not null,
    copied_at timestamptz not null default now(),
    constraint replica_table_pkey primary key (replica, source_table),
    constraint replica_table_replica_fkey foreign key (replica) references rowbus_spark.replica (replica)
    on delete cascade
);

-- The types of the source's columns when it was copied; null in what older versions copied.
alter table rowbus_spark.replica_table add column if not exists type_names text[];

-- The shape of the source that the copy shows, as `describe_tables.sql` tells it; null in what older versions
-- copied, empty where the source is gone or captured no longer: the copy stays as it is.
alter table rowbus_spark.replica_table add column if not exists shape text;

-- Why the copy of a table stands still while the others go on; null where it does not.
alter table rowbus_spark.replica_table add column if not exists fault text;
