-- Have this transaction see what another session's does, which exported its snapshot.
-- Run it before any query of the transaction; locks nothing, returns nothing.
set transaction snapshot :'snapshot'
