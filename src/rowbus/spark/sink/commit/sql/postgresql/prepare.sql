-- End the transaction with its fate open; it keeps its locks, survives a crash, and holds back vacuum.
-- Returns nothing. Fails, rolling back, where the server allows no prepared transactions.
prepare transaction :'gid'
