"""What the option `where` says: conditions that the database applies before rows leave it."""
