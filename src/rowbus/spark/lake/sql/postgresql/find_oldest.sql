-- Find the oldest snapshot of a DuckLake that is kept: the one that was the newest so long ago, or an older one that is noted.
-- Locks nothing; returns one row with its number.
select
    least(
        coalesce(
            max(s.snapshot_id) filter (where s.snapshot_time <= now() - :'older_than'::interval),
            min(s.snapshot_id)
        ),
        :'noted'::bigint
    ) as oldest
from :"schema".ducklake_snapshot as s
