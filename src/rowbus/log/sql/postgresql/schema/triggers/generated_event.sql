-- Makes the event of a row trigger by the generated code for a table; NULL where there is none. This is the one of an
-- installation that has generated nothing yet: maint_capture replaces it by a choice between the tables that it knows.
create or replace function pgq._generated_event(
    i_format text, i_op text, i_new anyelement, i_old anyelement, i_args text[], i_table oid
)
returns text[]
language sql stable as $$
    select null::pg_catalog.text[];
$$;

-- The same for the table of the row. An argument, so that the planner works it out once and not for each choice.
create or replace function pgq.generated_event(
    i_format text, i_op text, i_new anyelement, i_old anyelement, i_args text[]
)
returns text[]
language sql stable as $$
    select pgq._generated_event(
        i_format, i_op, i_new, i_old, i_args, pgq.row_table(case when false then i_new end)::pg_catalog.oid
    );
$$;
