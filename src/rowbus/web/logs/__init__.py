"""Event logs: their consumers, their events as they come, and what consumers gave up on."""
