-- Create schema rowbus_spark and what the sink remembers there: which micro-batches it has delivered (the ledger), where
-- rows wait until then (stages), which prepared transactions a batch was decided to consist of (decision), and that each
-- of these committed (prepared_part). Locks what is created; returns nothing.
create schema if not exists rowbus_spark;

create table if not exists rowbus_spark.schema_version (
    version int4 not null,
    digest text not null,
    installed_at timestamptz not null default now(),
    constraint schema_version_pkey primary key (version)
);

-- `query_id` is empty where the user named the sink; else it tells a new checkpoint at an old place from the old one.
-- `written_by` is the query in either case, empty for a batch write.
create table if not exists rowbus_spark.ledger (
    sink_id text not null,
    target text not null,
    query_id text not null,
    batch_id bigint not null,
    guarantee text not null,
    row_count bigint not null,
    written_by text not null,
    committed_at timestamptz not null default now(),
    constraint ledger_pkey primary key (sink_id, target, query_id, batch_id)
);

create table if not exists rowbus_spark.stage (
    stage_name text not null,
    sink_id text not null,
    target text not null,
    query_id text not null,
    batch_id bigint not null,
    created_at timestamptz not null default now(),
    constraint stage_pkey primary key (stage_name)
);

-- Record here first that a prepared transaction is to be committed or rolled back; the first record wins.
create table if not exists rowbus_spark.decision (
    gid text not null,
    verdict text not null,
    sink_id text not null default '',
    target text not null default '',
    query_id text not null default '',
    batch_id bigint not null default 0,
    constraint decision_pkey primary key (gid),
    constraint decision_verdict_check check (verdict in ('commit', 'rollback'))
);

create table if not exists rowbus_spark.prepared_part (
    gid text not null,
    constraint prepared_part_pkey primary key (gid)
);
