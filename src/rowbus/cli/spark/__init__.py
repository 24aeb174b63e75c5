"""`rowbus spark`: pipelines over logs and queues."""
