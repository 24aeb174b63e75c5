-- Lock a table against TRUNCATE until the transaction ends.
-- Locks it in the mode of reading (access share), waiting only for TRUNCATE itself. Returns nothing.
lock table :"schema".:"table" in access share mode
