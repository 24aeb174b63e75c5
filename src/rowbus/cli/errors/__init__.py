"""`rowbus errors`: list, show, retry and discard failed messages."""
