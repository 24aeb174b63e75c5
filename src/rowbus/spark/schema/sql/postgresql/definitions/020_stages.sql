-- Create a stage: an unlogged table that one attempt of one task fills, with columns c1, c2, … of the given types.
-- Unlogged, because a stage that is lost fails its batch, which Spark then repeats; no vacuum, because it lives for
-- seconds. Locks what is created; returns nothing.
create or replace function rowbus_spark.create_stage(
    i_stage text, i_types text[], i_sink_id text, i_target text, i_query_id text, i_batch_id bigint
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_columns text;
begin
    select string_agg(format('c%s %s', given.position, given.type_name::regtype), ', ' order by given.position)
    into v_columns
    from unnest(i_types) with ordinality as given (type_name, position);
    execute format(
        'create unlogged table rowbus_spark.%I (%s) with (autovacuum_enabled = false)', i_stage, v_columns
    );
    insert into rowbus_spark.stage (stage_name, sink_id, target, query_id, batch_id)
    values (i_stage, i_sink_id, i_target, i_query_id, i_batch_id);
end;
$$;

-- Drop stages and forget them; those that are gone already do no harm.
-- Waits for sessions that write or read them; returns how many were known.
create or replace function rowbus_spark.drop_stages(i_stages text[])
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stage text;
    v_known bigint;
begin
    foreach v_stage in array i_stages loop
        if to_regclass(format('rowbus_spark.%I', v_stage)) is not null then
            execute format('drop table if exists rowbus_spark.%I', v_stage);
        end if;
    end loop;
    delete from rowbus_spark.stage as s
    where s.stage_name = any(i_stages);
    get diagnostics v_known = row_count;
    return v_known;
end;
$$;

-- Drop the stages made before a moment, except those that a session writes or reads now.
-- Never waits; returns how many it dropped.
create or replace function rowbus_spark.drop_old_stages(i_before timestamptz)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stage text;
    v_dropped bigint := 0;
begin
    for v_stage in
        select s.stage_name
        from rowbus_spark.stage as s
        where s.created_at < i_before
        for update skip locked
    loop
        begin
            if to_regclass(format('rowbus_spark.%I', v_stage)) is not null then
                execute format('lock table rowbus_spark.%I in access exclusive mode nowait', v_stage);
            end if;
            perform rowbus_spark.drop_stages(array[v_stage]);
            v_dropped := v_dropped + 1;
        exception
            when lock_not_available then
                raise debug 'stage % is in use', v_stage;
        end;
    end loop;
    return v_dropped;
end;
$$;
