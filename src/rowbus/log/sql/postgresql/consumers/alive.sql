-- Give a sign of life, and hear whether the session lives.
-- Locks nothing; returns one row that means nothing.
select true as alive
