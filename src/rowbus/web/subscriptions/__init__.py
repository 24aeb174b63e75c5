"""Subscriptions: who gets which events, and who cannot."""
