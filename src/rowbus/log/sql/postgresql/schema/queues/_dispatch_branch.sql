-- Build the part of insert_event_raw() that finds one of these queues (sorted by name): a binary search.
-- Locks nothing; returns source code.
create or replace function pgq._dispatch_branch(i_names text[], i_ids int4[])
returns text
language plpgsql
immutable
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_middle int4 := cardinality(i_names) / 2;
begin
    if cardinality(i_names) = 0 then
        return '';
    elsif cardinality(i_names) = 1 then
        return format(
            e'if $1 operator(pg_catalog.=) %L collate pg_catalog."C" then\n'
            || e'return pgq.%I($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);\n'
            || e'end if;\n',
            i_names[1], 'insert_event_' || i_ids[1]
        );
    end if;
    return format(
        e'if $1 operator(pg_catalog.<) %L collate pg_catalog."C" then\n%selse\n%send if;\n',
        i_names[v_middle + 1],
        pgq._dispatch_branch(i_names[:v_middle], i_ids[:v_middle]),
        pgq._dispatch_branch(i_names[v_middle + 1:], i_ids[v_middle + 1:])
    );
end;
$$;
revoke execute on function pgq._dispatch_branch(text[], int4[]) from public;
