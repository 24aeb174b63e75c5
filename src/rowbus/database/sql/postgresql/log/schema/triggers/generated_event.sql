-- Makes the event of a row trigger by generated code; NULL where there is none. This is the one of an installation that
-- has generated nothing yet: maint_capture replaces it by a choice between the tables that it knows.
create or replace function pgq.generated_event(
    i_format text, i_op text, i_new anyelement, i_old anyelement, i_args text[]
)
returns text[]
language sql stable as $$
    select null::text[];
$$;
