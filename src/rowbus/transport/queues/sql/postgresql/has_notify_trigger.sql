-- Say whether inserts of other software into the queue notify its channel, by the function as this Rowbus makes it.
-- Locks nothing; returns one row with one boolean.
select exists(
    select 1
    from pg_catalog.pg_trigger as placed
    inner join pg_catalog.pg_proc as called on placed.tgfoid = called.oid
    where
        placed.tgrelid = to_regclass(:'table_name'::text)
        and placed.tgname = 'rowbus_notify'
        and placed.tgenabled <> 'D'
        and placed.tgargs = convert_to(:'channel'::text, getdatabaseencoding()) || e'\\x00'::bytea
        and called.prosrc = :'body'::text
)
