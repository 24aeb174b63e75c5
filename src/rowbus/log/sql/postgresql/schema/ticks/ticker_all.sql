-- Tick every queue that is neither paused nor ticked by an external ticker, in one transaction. Returns how many got a
-- tick.
create or replace function pgq.ticker()
returns bigint
language plpgsql security definer set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_name text;
    v_ticked bigint := 0;
begin
    for v_name in
        select queue_name from pgq.queue
        where not queue_external_ticker and not queue_ticker_paused
        order by queue_name
    loop
        if pgq.ticker(v_name) is not null then
            v_ticked := v_ticked + 1;
        end if;
    end loop;
    return v_ticked;
end
$$;
