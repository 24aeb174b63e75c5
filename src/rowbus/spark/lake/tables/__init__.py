"""Tables in a lake that follow the tables of a database, by the changes that triggers write to a log."""
