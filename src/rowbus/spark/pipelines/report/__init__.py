"""The report of message flow: what it asks, counts, draws and writes."""
