-- Say whether a relation is a table of events: one in schema pgq that inherits from pgq.event_template, directly or by a
-- queue's own parent. Creating one takes the rights of the template's owner.
-- Readers call it at each batch: every name is qualified, because `set search_path` costs at each call.
-- Locks nothing; returns false for NULL.
create or replace function pgq._is_event_table(i_table regclass)
returns boolean
language plpgsql
stable
as $$
begin
    return exists (
        select
        from pg_catalog.pg_class as c
        inner join pg_catalog.pg_inherits as i on c.oid operator(pg_catalog.=) i.inhrelid
        left join pg_catalog.pg_inherits as above on i.inhparent operator(pg_catalog.=) above.inhrelid
        where c.oid operator(pg_catalog.=) i_table
            and c.relkind operator(pg_catalog.=) 'r'
            and c.relnamespace operator(pg_catalog.=) 'pgq'::pg_catalog.regnamespace
            and 'pgq.event_template'::pg_catalog.regclass
            operator(pg_catalog.=) any(array[i.inhparent, above.inhparent])
    );
end;
$$;

-- Find a table of events by its name in pgq.queue. Refuse any other table: administrators of the log may write that name,
-- and what happens to the table happens with the rights of the schema's owner or of the ticker. Qualified like the above.
-- Locks nothing; returns the table. Raises 42P01 if there is none, 42501 if it is another one.
create or replace function pgq._event_table(i_name text)
returns regclass
language plpgsql
stable
as $$
declare
    v_table pg_catalog.regclass := pgq.quote_fqname(i_name)::pg_catalog.regclass;
begin
    if v_table is not null and not pgq._is_event_table(v_table) then
        raise exception '% is not a table of events in schema pgq', i_name
            using errcode = 'insufficient_privilege', hint = 'Correct queue_data_pfx in pgq.queue.';
    end if;
    return v_table;
end;
$$;
