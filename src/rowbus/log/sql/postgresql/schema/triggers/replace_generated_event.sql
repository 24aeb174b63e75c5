-- Makes _generated_event anew from capture_code, unless it is as it should be. The planner leaves of it only the
-- function for the table at hand: all it asks is constant then, but for the arguments where triggers of one format
-- differ in them (the shape tells which triggers there are, so that a single one need not be asked). A table whose shape the
-- log was not told yet has no choice: the trigger of its next row tells it. Returns nothing.
create or replace function pgq.replace_generated_event()
returns void
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_choices text;
    v_body text;
begin
    select pg_catalog.string_agg(t.choice, e'\n' order by t.cc_table)
    into v_choices
    from (
        select
            k.cc_table,
            pg_catalog.format(e'when i_table operator(pg_catalog.=) %s then case\n%s\nend', k.cc_table, pg_catalog.string_agg(pg_catalog.format(
                'when i_format operator(pg_catalog.=) %L '
                || 'and pgq.row_shape(case when false then i_new end) operator(pg_catalog.=) %L%s '
                || 'then pgq.%I(i_op, i_new, i_old, i_args)',
                k.cc_format, k.cc_shape, case when k.choices > 1 then pg_catalog.format(' and i_args operator(pg_catalog.=) %L::pg_catalog.text[]', k.cc_args) end,
                k.cc_function
            ), e'\n' order by k.cc_format, k.cc_args)) as choice
        from (
            select
                s.table_id as cc_table,
                s.format as cc_format,
                s.trigger_args as cc_args,
                c.cc_shape,
                c.cc_function,
                s.is_told,
                pg_catalog.count(*) over (partition by s.table_id, s.format) as choices
            from (
                select e.table_id, e.format, e.trigger_args,
                    bool_and(not pgq.is_exact(e.trigger_args) or pgq.is_told(e.table_id, e.trigger_name, e.trigger_args)) as is_told
                from pgq.capture_status as e
                group by e.table_id, e.format, e.trigger_args
            ) as s
            left join pgq.capture_code as c
                on s.table_id = c.cc_table and s.format = c.cc_format and s.trigger_args = c.cc_args
        ) as k
        where k.cc_function is not null and k.is_told
        group by k.cc_table
    ) as t;
    v_body := coalesce(
        e'select case\n' || v_choices || e'\nend', 'select null::pg_catalog.text[]'
    );
    if not exists (
        select from pg_catalog.pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace and p.proname = '_generated_event' and p.prosrc = v_body
    ) then
        execute pg_catalog.format(
            'create or replace function pgq._generated_event(i_format text, i_op text, i_new anyelement, '
            || 'i_old anyelement, i_args text[], i_table oid) returns text[] language sql stable as %L', v_body
        );
    end if;
end
$$;
revoke execute on function pgq.replace_generated_event() from public;
