-- Note how far a node that reads from this one is, with all below it; only forwards.
-- Locks the watermark's subscription until the transaction ends.
-- Returns 200, 100 if nothing changes, 404 if it does not read from here, 405 for a tick behind.
create or replace function pgq_node.set_subscriber_watermark(
    in i_queue_name text,
    in i_node_name text,
    in i_watermark bigint,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    watermark_name text := '.' || i_node_name || '.watermark';
    watermark_now bigint;
begin
    select c.last_tick
    into watermark_now
    from pgq.get_consumer_info(i_queue_name, watermark_name) as c;
    if not found then
        ret_code := 404;
        ret_note := 'node ' || i_node_name || ' not subscribed to queue '; -- which one, PgQ's own does not say either
    elsif i_watermark = watermark_now then
        ret_code := 100;
        ret_note := 'watermark already set';
    elsif i_watermark < watermark_now then
        ret_code := 405;
        ret_note := 'watermark must not be moved backwards';
    else
        perform pgq.register_consumer_at(i_queue_name, watermark_name, i_watermark);
        ret_code := 200;
        ret_note := watermark_name || ' set to ' || i_watermark;
    end if;
end;
$$;
