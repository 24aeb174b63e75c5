"""The failed messages of long error queues: an index in memory, searches, and what a page of them shows."""
