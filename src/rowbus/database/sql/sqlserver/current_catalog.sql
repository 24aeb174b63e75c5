-- Say which catalog the connection is in.
-- Locks nothing. Returns one row: its name.
select db_name() as catalog_name;
