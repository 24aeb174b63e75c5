-- Note why a queue cannot be rotated; the time stays that of the first note with this reason. Returns 0, as rotation does.
create or replace function pgq._note_rotation_block(i_queue int4, i_reason text, i_detail text)
returns integer
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    insert into pgq.rotation_block as b (rb_queue, rb_reason, rb_detail)
    values (i_queue, i_reason, i_detail)
    on conflict (rb_queue) do update
    set
        rb_since = case when b.rb_reason = excluded.rb_reason then b.rb_since else now() end,
        rb_reason = excluded.rb_reason,
        rb_detail = excluded.rb_detail
    where (b.rb_reason, b.rb_detail) is distinct from (excluded.rb_reason, excluded.rb_detail);
    return 0;
end
$$;
revoke execute on function pgq._note_rotation_block(int4, text, text) from public;
grant execute on function pgq._note_rotation_block(int4, text, text) to pgq_admin;
