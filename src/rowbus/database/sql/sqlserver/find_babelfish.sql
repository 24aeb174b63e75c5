-- Say whether the server is Babelfish, by where its version names it.
-- Locks nothing; returns one row with one number, 0 for a server that is not.
select charindex(N'Babelfish', @@version) as place;
