-- Give a schema older than pgq_node 3.2 the attributes of a node.
-- Locks pgq_node.node_info exclusively if it lacks them. Returns 1 if it did, else 0.
create or replace function pgq_node.upgrade_schema()
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select from pg_attribute as a
        where a.attrelid = 'pgq_node.node_info'::regclass and a.attname = 'node_attrs' and not a.attisdropped
    ) then
        return 0;
    end if;
    alter table pgq_node.node_info add column node_attrs text;
    return 1;
end;
$$;

do $$ begin perform pgq_node.upgrade_schema(); end; $$;
