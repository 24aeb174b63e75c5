-- Mend the banks that are down until somebody mends them.
-- Locks their rows; returns nothing.
update rowbus_demo.outages
set mended_at = clock_timestamp()
where retries is null
