"""`rowbus log`: logs, their events and their consumers."""
