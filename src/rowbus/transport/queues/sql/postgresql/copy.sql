-- Stream many messages into the queue; the fastest way in. The caller notifies afterwards (notify.sql).
-- Locks no row; returns nothing. `expires` comes from expiry.sql, so that the database's clock is the only one.
copy :"schema".:"queue" (id, expires, headers, body) from stdin (format binary)
