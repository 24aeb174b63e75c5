-- Gather what decides whether Rowbus can work with this server and catalog, and how safely.
-- Locks nothing; returns one row, in the order of `model.sqlserver_diagnosis.SqlServerFacts`.
select
    @@version as version,
    db_name() as catalog_name,
    suser_sname() as login,
    current_catalog.compatibility_level as compatibility_level,
    current_catalog.is_read_only as is_read_only,
    current_catalog.is_read_committed_snapshot_on as reads_versions,
    current_catalog.delayed_durability as delayed_durability
from sys.databases as current_catalog
where current_catalog.name = db_name();
