-- Decide that a prepared transaction is rolled back, unless it was decided that it commits.
-- Waits for transactions that decide the same; returns whether it is to be rolled back.
with decided as (
    insert into rowbus_spark.decision (gid, verdict)
    values (:'gid', 'rollback')
    on conflict do nothing
    returning gid
)

select
    exists (select from decided)
    or exists (
        select
        from rowbus_spark.decision as d
        where d.gid = :'gid' and d.verdict = 'rollback'
    ) as rolled_back
