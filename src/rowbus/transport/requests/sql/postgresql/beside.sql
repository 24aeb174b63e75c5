-- Find the tables of one schema whose names may be those of queues of answers, and which this role may drop.
-- Locks nothing; returns the name of each, in order.
select class.relname::text as name
from pg_class as class
inner join pg_namespace as namespace on class.relnamespace = namespace.oid
where
    class.relkind = 'r'
    and namespace.nspname = :'schema_name'::text
    and strpos(class.relname::text, '.answers-') > 0
    and pg_has_role(class.relowner, 'usage')
order by class.relname
