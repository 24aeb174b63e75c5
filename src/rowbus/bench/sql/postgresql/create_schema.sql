-- Create the schema that a measurement works in; fails if there is one of this name, which another made.
-- Locks nothing that exists; returns nothing.
create schema :"schema"
