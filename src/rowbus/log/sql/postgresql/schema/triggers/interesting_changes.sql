-- Returns the columns that an update has changed (without ignored columns and but for sqltriga, only those of the key
-- are looked at), NULL when it has changed ignored ones only. Raises an error for a changed key column; with ignored
-- columns, as PgQ, only for one before the first other change. Locks nothing.
create or replace function pgq.interesting_changes(
    i_format text, i_new anyelement, i_old anyelement, i_names text[], i_kinds text[], i_key text[],
    i_ignored text[], i_args text[]
)
returns text[]
language plpgsql volatile as $$
declare
    v_changed pg_catalog.text[];
    v_name pg_catalog.text;
    v_passed boolean := false;
    v_found boolean := false;
begin
    v_changed := pgq.changed_columns(
        i_new, i_old, i_names, i_kinds, case when i_ignored is null and i_format operator(pg_catalog.<>) 'sql' then i_key end
    );
    foreach v_name in array v_changed loop
        if v_name operator(pg_catalog.=) any(i_key) then
            perform pgq.check_expressions(i_args, i_names, pgq.row_table(i_new));
            raise exception using errcode = 'XX000', message = 'primary key update not allowed';
        elsif i_ignored is null then
            continue;
        elsif v_name operator(pg_catalog.=) any(i_ignored) or v_name operator(pg_catalog.~~) '\_pgq\_ev\_%' then
            v_passed := true;
        elsif i_format operator(pg_catalog.=) 'sql' then
            v_found := true;
        else
            return v_changed;
        end if;
    end loop;
    return case when v_found or not v_passed then v_changed end;
end
$$;
