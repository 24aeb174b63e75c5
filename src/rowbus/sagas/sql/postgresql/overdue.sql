-- Find the sagas that are stuck: a timeout that they wait for is overdue, by the database's clock. Looks at the
-- `looked_at` rows that lie first: no index has the timeouts. Their times are compared as texts, all of UTC.
-- Locks nothing; returns up to `most` sagas, the one that has waited for longest first: what finds each, the text of
-- when its timeout was due, and the database's time.
select
    looked.correlation,
    waited.due,
    now() as at
from (
    select
        saga.correlation,
        saga.timeouts
    from :"schema".:"saga" as saga
    order by saga.ctid
    limit :'looked_at'::integer
) as looked
cross join lateral (
    select min(timeout.due #>> '{}') as due
    from jsonb_path_query(looked.timeouts, '$[*].due') as timeout (due)
) as waited
where
    looked.timeouts <> '[]'
    and waited.due < to_char(
        (now() - make_interval(secs => :'overdue_by'::integer)) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'
    )
order by
    waited.due,
    looked.correlation
limit :'most'::integer
