"""Recurring messages: one message for each tick of a schedule, however many instances of the endpoint run."""
