-- Clear a session of what handlers may have left in it: prepared statements, cursors WITH HOLD, LISTEN, temporary tables.
-- What is not in a transaction (prepared statements) is gone at once, the rest with the commit. Locks nothing that others
-- use; returns nothing.
do $$
declare
    statement_name text;
begin
    for statement_name in
        select prepared.name from pg_catalog.pg_prepared_statements as prepared where prepared.from_sql
    loop
        execute pg_catalog.format('deallocate %I', statement_name);
    end loop;
    execute 'close all';
    unlisten *;
    discard temp;
end
$$
