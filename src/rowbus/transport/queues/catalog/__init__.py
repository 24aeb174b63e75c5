"""The catalogue: which queues a database holds, and how deep they are."""
