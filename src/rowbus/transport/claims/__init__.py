"""Claim checks: large properties of messages, kept outside of their rows."""
