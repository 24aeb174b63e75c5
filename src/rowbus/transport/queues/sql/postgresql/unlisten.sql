-- Stop hearing of new messages, as a busy receiver does: it looks anyway.
-- Locks nothing; returns nothing.
unlisten :"channel"
