-- Say whether a relation is a table of events: one in schema pgq that inherits from pgq.event_template, directly or by a
-- queue's own parent. To make one takes the rights of the template's owner.
-- Locks nothing; returns false for NULL.
create or replace function pgq._is_event_table(i_table regclass)
returns boolean
language sql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
    select exists (
        select
        from pg_class as c
        inner join pg_inherits as i on c.oid = i.inhrelid
        left join pg_inherits as above on i.inhparent = above.inhrelid
        where c.oid = i_table and c.relkind = 'r' and c.relnamespace = 'pgq'::regnamespace
            and 'pgq.event_template'::regclass in (i.inhparent, above.inhparent)
    )
$$;

-- Find a table of events by its name. The names come from pgq.queue, which administrators of the log may write; what is
-- done to the table is done with the rights of the schema's owner, or the ticker's: so any other table is refused.
-- Locks nothing; returns the table. Raises 42P01 if there is none, 42501 if it is another one.
create or replace function pgq._event_table(i_name text)
returns regclass
language plpgsql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_table regclass := pgq.quote_fqname(i_name)::regclass;
begin
    if v_table is not null and not pgq._is_event_table(v_table) then
        raise exception '% is not a table of events in schema pgq', i_name
            using errcode = 'insufficient_privilege', hint = 'Correct queue_data_pfx in pgq.queue.';
    end if;
    return v_table;
end;
$$;
