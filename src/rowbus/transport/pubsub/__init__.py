"""Publish and subscribe: the table of subscriptions, and its readers."""
