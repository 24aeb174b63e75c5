-- Create the trigger function that puts what is sent to an endpoint into the lane that it names; what names none stays.
-- Its arguments are the kind (key, share or name), the header, and how many lanes there are, or their names with commas
-- (docs/wire-format.md#lanes). Of kind `key`, who sends a key locks it, and waits for others who have sent it and not
-- committed: so their order is that of commits. Runs with the sender's rights; the path is pinned.
-- Locks nothing itself; returns nothing.
create or replace function :"schema".rowbus_lane()
returns trigger
language plpgsql
set search_path to pg_catalog, pg_temp
as $function$
declare
    header constant text := tg_argv[1];
    given text;
    digest bigint;
    lane text;
begin
    if strpos(new.headers, '"' || header || '"') = 0 then
        return new;
    end if;
    given := substring(
        new.headers
        from '"' || regexp_replace(header, '([^[:alnum:]])', e'\\\\\\1', 'g')
            || e'"[[:space:]]*:[[:space:]]*("([^"\\\\\\u0001-\\u001f]|\\\\.)*")'
    );
    if strpos(given, e'\\') > 0 and given !~ (
        e'^([^\\\\]|\\\\["\\\\/bfnrt]|\\\\u(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}'
        || e'|\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2})*$'
    ) then
        return new;  -- no text of JSON, or one with characters that PostgreSQL has not
    end if;
    given := given::json #>> '{}';
    if given is null or given = '' then
        return new;
    end if;
    if tg_argv[0] = 'name' then
        if given <> all(string_to_array(tg_argv[2], ',')) then
            return new;
        end if;
        lane := tg_table_name || '#' || given;
    else
        digest := ('x' || left(encode(sha256(convert_to(given, 'UTF8')), 'hex'), 8))::bit(32)::bigint;
        lane := tg_table_name || '#' || (digest % tg_argv[2]::integer)::text;
        if tg_argv[0] = 'key' then
            perform pg_advisory_xact_lock(
                hashtextextended('rowbus order ' || (digest / 4194304)::text, tg_relid::bigint)
            );
        end if;
    end if;
    execute format('insert into %I.%I (id, expires, headers, body) values ($1, $2, $3, $4)', tg_table_schema, lane)
    using new.id, new.expires, new.headers, new.body;
    perform pg_notify(
        'rowbus_' || md5(
            convert_to(
                '"' || replace(tg_table_schema, '"', '""') || '"."' || replace(lane, '"', '""') || '"',
                'UTF8'
            )
        ),
        ''
    );
    return null;
end
$function$
