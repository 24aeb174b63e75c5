-- Stream many delayed messages into the table; the fastest way in. The caller notifies afterwards (notify.sql).
-- Locks no row; returns nothing. `due` comes from due.sql, so that the database's clock is the only one.
copy :"schema".:"delayed" (id, headers, body, due) from stdin (format binary)
