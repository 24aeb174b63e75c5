"""The trail of what operators did to queues: who, when, what, how many; a table of our own."""
