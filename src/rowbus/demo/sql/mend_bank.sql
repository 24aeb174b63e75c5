-- Mend the banks that are down until they are mended. Locks their rows; returns nothing.
update rowbus_demo.outages
set mended_at = clock_timestamp()
where retries is null
