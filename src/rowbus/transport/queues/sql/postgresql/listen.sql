-- Hear of messages that commit from now on; the session listens until it ends or unlistens.
-- Locks nothing; returns nothing.
listen :"channel"
