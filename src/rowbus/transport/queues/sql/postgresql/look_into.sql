-- Look into many tables at once: queues, for messages that a receiver could take now, from a lower bound each, as by
-- count_available.sql; and tables of delayed messages, which have no lower bound, for any. One statement for all, because
-- parsing and sending hundreds costs more than reading the tables. The server has one function that runs a query given
-- as a text and returns rows, ts_stat; the names are quoted by format. Fails if one of the tables cannot be read.
-- Locks nothing; returns the positions in the arrays of those that have something.
with here as (
    select
        array(
            select transaction::text::bigint & 4294967295
            from pg_snapshot_xip(pg_current_snapshot()) as transaction
        ) as running,
        (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1) & 4294967295 as newest
)

select looked.position::integer as position
from
    unnest(:'schemas'::text[], :'tables'::text[], :'lower_bounds'::text[])
    with ordinality as looked (schema_name, table_name, lower_bound, position)
cross join here
cross join lateral ts_stat(
    case
        when looked.lower_bound is null then format(
            'select ''some''::tsvector from %I.%I as waiting order by waiting.due limit 1',
            looked.schema_name,
            looked.table_name
        )
        else format(
            'select ''some''::tsvector from %I.%I as message '
            'where message.seq >= %s and (message.xmax = ''0''::xid or ('
            'message.xmax::text::bigint <> all(%L::bigint[]) '
            'and ((%s - message.xmax::text::bigint) & 4294967295) < 2147483648)) '
            'order by message.seq limit 1',
            looked.schema_name,
            looked.table_name,
            looked.lower_bound::integer,
            here.running,
            here.newest
        )
    end
)
