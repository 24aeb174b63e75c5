-- Let everybody see what is paused: who works on something asks.
-- Locks the catalogue's row; returns nothing.
grant select on table :"schema".:"pauses" to public
