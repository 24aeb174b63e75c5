-- Says whether this session shows values in the form that exact captures write. Locks nothing.
create or replace function pgq.has_plain_settings()
returns boolean
language sql stable
return pg_catalog.current_setting('datestyle') like 'ISO%'
    and pg_catalog.current_setting('extra_float_digits') > '0' collate "C"
    and pg_catalog.current_setting('intervalstyle') = 'postgres'
    and pg_catalog.current_setting('bytea_output') = 'hex'
    and pg_catalog.current_setting('quote_all_identifiers') = 'off';

-- Says whether settled_event has set all that the forms of values may depend on. Locks nothing.
create or replace function pgq.is_settled()
returns boolean
language sql stable
return pgq.has_plain_settings()
    and pg_catalog.current_setting('timezone') = 'UTC'
    and pg_catalog.current_setting('lc_monetary') = 'C'
    and pg_catalog.current_setting('standard_conforming_strings') = 'on'
    and pg_catalog.current_setting('search_path') = 'pg_catalog, pg_temp';

-- Makes the event of a row trigger of an exact capture as general_event does, in whatever form a session shows values.
-- Locks nothing.
create or replace function pgq.settled_event(
    i_format text, i_op text, i_when text, i_new anyelement, i_old anyelement, i_args text[], i_table text[]
)
returns text[]
language plpgsql volatile
set datestyle = 'ISO' set extra_float_digits = 1 set intervalstyle = 'postgres' set bytea_output = 'hex'
set quote_all_identifiers = off set timezone = 'UTC' set lc_monetary = 'C'
set standard_conforming_strings = on set search_path = pg_catalog, pg_temp as $$
begin
    return coalesce(
        pgq.generated_event(i_format, i_op, i_new, i_old, i_args),
        pgq.general_event(i_format, i_op, i_when, i_new, i_old, i_args, i_table)
    );
end
$$;
