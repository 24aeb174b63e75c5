"""Looking at the database now and then, for all visitors at once, and remembering the last hour."""
