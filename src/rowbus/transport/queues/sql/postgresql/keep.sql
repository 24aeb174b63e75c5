-- Keep the queue that `name_kept.sql` named as it is until the transaction ends: nobody can put another table in its place, or
-- a trigger, a rule or a default on it. To parse an INSERT takes the lock of one, by whatever grants, and runs nothing.
-- Locks the table as an insert does; waits 10 seconds at most, or what the session has set. Returns nothing.
do $$
declare
    waits constant text := pg_catalog.current_setting('lock_timeout');
begin
    if waits operator(pg_catalog.=) '0' then
        perform pg_catalog.set_config('lock_timeout', '10s', true);
    end if;
    execute pg_catalog.format(
        'prepare rowbus_kept as insert into %s default values', pg_catalog.current_setting('rowbus.kept')
    );
    deallocate rowbus_kept;
    perform pg_catalog.set_config('lock_timeout', waits, true);
end
$$
