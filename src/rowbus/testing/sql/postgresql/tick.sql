-- Tick every log now, whether there is something new or not.
-- Waits while another session drops or rotates a log; returns one row a log.
select
    pgq.force_tick(log.queue_name) as last_tick,
    pgq.ticker(log.queue_name) as tick
from pgq.get_queue_info() as log
