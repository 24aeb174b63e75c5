"""The pages of failed messages: groups and searches, one message, and what operators do with them."""
