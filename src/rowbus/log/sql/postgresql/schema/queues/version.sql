-- Name the version of PgQ that this schema is compatible with; tools such as pgqd read the first character.
-- What Rowbus installed is in pgq.schema_version.
create or replace function pgq.version()
returns text
language plpgsql
stable
as $$
begin
    return '3.5.2';
end;
$$;
