-- Note, in a transaction after step 1, that every transaction from now on sees which table is written. Returns 0.
create or replace function pgq.maint_rotate_tables_step2()
returns integer
language plpgsql set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    update pgq.queue set queue_switch_step2 = txid_current() where queue_switch_step2 is null;
    return 0;
end
$$;
