-- List the triggers and rules on the tables of these schemas that are not among the named ones: each runs with the
-- rights of the role that changes the table. Reads catalogues only. Locks nothing; returns one row each, a text for
-- people.
select format('trigger %I on %s is not one of Rowbus''s', t.tgname, t.tgrelid::regclass) as difference
from pg_catalog.pg_trigger as t
inner join pg_catalog.pg_class as c on t.tgrelid = c.oid
where
    not t.tgisinternal
    and c.relnamespace = any(:'schemas'::text[]::regnamespace[])
    and t.tgname <> all(:'triggers'::text[])
union all
select format('rule %I on %s is not one of Rowbus''s', r.rulename, r.ev_class::regclass)
from pg_catalog.pg_rewrite as r
inner join pg_catalog.pg_class as c on r.ev_class = c.oid
where c.relnamespace = any(:'schemas'::text[]::regnamespace[]) and r.rulename <> '_RETURN'
order by 1
