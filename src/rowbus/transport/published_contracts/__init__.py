"""What endpoints published of themselves: which messages each takes, sends and publishes; a table of our own."""
