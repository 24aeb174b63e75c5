-- Write a batch into the ledger, unless it is there: the one moment that decides whether its rows are published.
-- Waits for another transaction that is just writing the same batch. Affects one row, or none if it was there.
insert into rowbus_spark.ledger (sink_id, target, query_id, batch_id, guarantee, row_count, written_by)
values (
    :'sink_id', :'target', :'query_id', :'batch_id'::bigint, :'guarantee', :'row_count'::bigint, :'written_by'
)
on conflict do nothing
