-- Create the roles pgq_reader, pgq_writer and pgq_admin (a member of both) where they are missing; they are the
-- whole server's, so they may be there from another database, or be created by one at this moment.
-- Locks nothing; returns nothing. Needs CREATEROLE only while one is missing.
do $$
begin
    if to_regrole('pgq_reader') is null then
        create role pgq_reader;
    end if;
exception
    when duplicate_object or unique_violation then null;
end;
$$;

do $$
begin
    if to_regrole('pgq_writer') is null then
        create role pgq_writer;
    end if;
exception
    when duplicate_object or unique_violation then null;
end;
$$;

do $$
begin
    if to_regrole('pgq_admin') is null then
        create role pgq_admin in role pgq_reader, pgq_writer;
    end if;
exception
    when duplicate_object or unique_violation then null;
end;
$$;

-- The schema everything lives in.
create schema if not exists pgq;
