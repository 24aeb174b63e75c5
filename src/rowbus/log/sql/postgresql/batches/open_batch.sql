-- Open the cursor "rowbus_batch" on a batch's events, those after an event or all (NULL), ordered by id.
-- Locks nothing; the cursor lives until the transaction ends. Returns no rows.
select b.ev_id
from
    pgq.get_batch_cursor(
        :'batch'::bigint, 'rowbus_batch', 0, 'ev_id > ' || :'after'::bigint
    ) as b
