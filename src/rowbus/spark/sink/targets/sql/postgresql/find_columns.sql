-- Find the columns of a table by the names that are given; no row if there is no such table.
-- Locks nothing; returns for each name the name and the type in the table, or nulls.
select
    c.name_given,
    c.name_there,
    c.type_there::text as type_there
from
    to_regclass(:'table') as target (oid),
    rowbus_spark.target_columns(target.oid, :'names'::text[]) as c
where target.oid is not null
