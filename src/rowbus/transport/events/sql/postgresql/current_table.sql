-- Find the table that takes a log's events now, for COPY; valid until the transaction ends.
-- The transaction is given its number first: a rotation that comes after the table was read then knows of it, and the
-- log's readers go on looking into this table for what it writes.
-- Locks nothing. Returns schema, table, whether this role may copy into it, and the events' time as the server sends it.
with found as materialized (
    select
        txid_current() as txid,
        pgq.current_event_table(:'log'::text) as table_name
)

select
    split_part(found.table_name, '.', 1) as schema_name,
    split_part(found.table_name, '.', 2) as table_name,
    has_table_privilege(found.table_name, 'insert')
    and has_sequence_privilege(queue.queue_event_seq, 'usage') as may_copy,
    timestamptz_send(now()) as event_time
from found
inner join pgq.queue on queue.queue_name = :'log'::text
