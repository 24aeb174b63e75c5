-- End a snapshot of a DuckLake: the numbers that it came to, and what it changed.
-- Run it once, in the transaction that began it; locks its rows; returns nothing.
with told as (
    insert into :"schema".ducklake_snapshot_changes (snapshot_id, changes_made, author, commit_message)
    values (:'snapshot'::bigint, :'changes'::text, 'Rowbus', :'message'::text)
)

update :"schema".ducklake_snapshot
set
    schema_version = :'schema_version'::bigint,
    next_catalog_id = :'next_catalog_id'::bigint,
    next_file_id = :'next_file_id'::bigint
where snapshot_id = :'snapshot'::bigint
