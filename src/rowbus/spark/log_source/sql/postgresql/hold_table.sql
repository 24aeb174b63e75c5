-- Keep a table from being emptied for as long as the transaction lasts.
-- Locks it in the mode of reading (access share), waiting only for TRUNCATE itself. Returns nothing.
lock table :"schema".:"table" in access share mode
