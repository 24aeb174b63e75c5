-- Gather what decides whether Rowbus can work with this server and catalog, and how safely.
-- Locks nothing; returns one row, in the order of `model.sqlserver_diagnosis.SqlServerFacts`.
select
    @@version as version,
    db_name() as catalog_name,
    suser_sname() as login,
    here.compatibility_level as compatibility_level,
    here.is_read_only as is_read_only,
    here.is_read_committed_snapshot_on as reads_versions,
    here.delayed_durability as delayed_durability
from sys.databases as here
where here.name = db_name();
