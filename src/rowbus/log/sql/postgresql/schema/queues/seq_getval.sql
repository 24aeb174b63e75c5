-- Read where a sequence stands, without advancing it; refuses all but sequences, because a view of that name would run
-- its author's code with the caller's rights.
-- Locks nothing; returns its last value.
create or replace function pgq.seq_getval(i_seq_name text)
returns bigint
language plpgsql
strict
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_value bigint;
begin
    if not exists (select from pg_class as c where c.oid = pgq.quote_fqname(i_seq_name)::regclass and c.relkind = 'S') then
        raise exception '% is not a sequence', i_seq_name using errcode = 'wrong_object_type';
    end if;
    execute 'select last_value from ' || pgq.quote_fqname(i_seq_name) into strict v_value;
    return v_value;
end;
$$;

-- Advance a sequence to a value, never backwards.
-- Locks nothing; returns where it stands then.
create or replace function pgq.seq_setval(i_seq_name text, i_new_value int8)
returns bigint
language plpgsql
strict
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_value bigint := pgq.seq_getval(i_seq_name);
begin
    if v_value < i_new_value then
        v_value := setval(pgq.quote_fqname(i_seq_name), i_new_value);
    end if;
    return v_value;
end;
$$;
