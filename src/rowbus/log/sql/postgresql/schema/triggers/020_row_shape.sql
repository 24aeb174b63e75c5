-- Facts about a trigger's table, asked for with a NULL of the table's row type. Declared immutable so that
-- the planner evaluates them once and keeps the answer in the plan: PostgreSQL's own cache. A plan that also mentions
-- the table as a regclass (row_table(...)::text, see row_event) is thrown away when any session changes the table.
-- Invariant: never used in a plan without that mention. They lock nothing.
-- They run in the trigger, with any search path: every name and operator is qualified, here and in what row_event
-- calls. (A SQL-standard body, which would bind them once, cannot be had with anyelement.)

create or replace function pgq.row_table(i_row anyelement)
returns regclass
language sql immutable as $$
    select t.typrelid::pg_catalog.regclass
    from pg_catalog.pg_type as t
    where t.oid operator(pg_catalog.=) pg_catalog.pg_typeof(i_row);
$$;

create or replace function pgq.row_root(i_row anyelement)
returns regclass
language sql immutable as $$
    select pgq.named_table(pgq.row_table(i_row), '{as-root}'::pg_catalog.text[]);
$$;

-- Returns the schema and the name of the partitioned table above the table.
create or replace function pgq.row_root_name(i_row anyelement)
returns text[]
language sql immutable as $$
    select pgq.event_table(pgq.row_table(i_row), '{as-root}'::pg_catalog.text[]);
$$;

-- Returns the names of the columns, in the order of the table.
create or replace function pgq.row_columns(i_row anyelement)
returns text[]
language sql immutable as $$
    select coalesce(pg_catalog.array_agg(a.attname::pg_catalog.text order by a.attnum), '{}')
    from pg_catalog.pg_attribute as a
    where
        a.attrelid operator(pg_catalog.=) pgq.row_table(i_row)
        and a.attnum operator(pg_catalog.>) 0
        and not a.attisdropped;
$$;

-- Returns two letters for each column. First, its JSON: n (as row_to_json writes it), s (a string of the text form),
-- m (a magic column: no data). Second, how to see a change: t (the text form), o (the type's operator, where the text
-- forms differ), f (always the operator).
create or replace function pgq.row_kinds(i_row anyelement)
returns text[]
language sql immutable as $$
    select coalesce(pg_catalog.array_agg(pgq.column_kind(a.attname, a.atttypid) order by a.attnum), '{}')
    from pg_catalog.pg_attribute as a
    where
        a.attrelid operator(pg_catalog.=) pgq.row_table(i_row)
        and a.attnum operator(pg_catalog.>) 0
        and not a.attisdropped;
$$;

-- Returns the key of an exact capture, as a list of names: of one with whole-row, and of others.
create or replace function pgq.row_whole_key(i_row anyelement, i_args text[])
returns text
language sql immutable as $$
    select pgq.exact_key(pgq.row_table(i_row), i_args);
$$;

create or replace function pgq.row_key(i_row anyelement)
returns text
language sql immutable as $$
    select pgq.table_key(pgq.row_table(i_row));
$$;

-- Returns what PgQ takes for the primary key, as a list of names.
create or replace function pgq.row_index_key(i_row anyelement)
returns text
language sql immutable as $$
    select pgq.index_key(pgq.row_table(i_row));
$$;

-- Returns the names of the columns that the database computes.
create or replace function pgq.row_generated(i_row anyelement)
returns text[]
language sql immutable as $$
    select pgq.generated_columns(pgq.row_table(i_row));
$$;

-- Returns the text that generated code is compared with.
create or replace function pgq.row_shape(i_row anyelement)
returns text
language sql immutable as $$
    select pgq.table_shape(pgq.row_table(i_row));
$$;
