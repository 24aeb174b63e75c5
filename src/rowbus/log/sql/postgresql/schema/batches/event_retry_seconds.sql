-- Have one event of an open batch delivered again, after so many seconds; see event_retry(bigint, bigint, timestamptz).
create or replace function pgq.event_retry(x_batch_id bigint, x_event_id bigint, x_retry_seconds integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    return pgq.event_retry(x_batch_id, x_event_id, now() + x_retry_seconds * interval '1 second');
end;
$$;
