"""Messages that people discarded: kept for a week, so that they can be brought back; a table of our own."""
