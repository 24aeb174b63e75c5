-- Give a table that is older than scales its column.
-- For the table's owner to run; locks the table for a moment; returns nothing.
alter table :"schema".:"pauses" add column if not exists amount integer check (amount between 1 and 1000)
