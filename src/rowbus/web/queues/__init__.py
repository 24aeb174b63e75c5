"""A queue and its endpoint: what waits, who sends and receives, what is in hand."""
