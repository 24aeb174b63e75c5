"""`rowbus bench`: what a user's own server carries, measured in a schema made for it and dropped again.

Invariant: nothing of the user's is touched, neither queues nor settings, and nothing is left behind.
"""
