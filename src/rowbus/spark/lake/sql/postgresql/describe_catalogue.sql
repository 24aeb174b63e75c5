-- Say of which version a DuckLake is, and where its files are.
-- Locks nothing; returns one row: version, data_path.
select
    max(m.value) filter (where m.key = 'version') as version,
    max(m.value) filter (where m.key = 'data_path') as data_path
from :"schema".ducklake_metadata as m
where m.scope is null
