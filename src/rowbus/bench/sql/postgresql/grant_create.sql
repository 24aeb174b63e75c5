-- Let a role create schemas in a database, as measuring needs it; shown to people, who run it as the database's owner.
-- Locks nothing for long; returns nothing.
grant create on database :"database" to :"role"
