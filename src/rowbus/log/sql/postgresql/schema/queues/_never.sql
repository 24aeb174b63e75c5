-- Return false, at a cost that the planner believes to be great; for the insert functions. It makes the planner look a
-- queue up by the index, where for some hundred queues it would otherwise read them all (10 microseconds an event for
-- 200). It is hardly ever called: it stands behind an `or`.
-- Locks nothing; returns false.
create or replace function pgq._never()
returns boolean
language plpgsql
cost 10000
as $$
begin
    return false;
end;
$$;
revoke execute on function pgq._never() from public;
grant execute on function pgq._never() to pgq_admin;
