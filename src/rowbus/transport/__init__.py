"""Queues, and what NServiceBus's transports and its recoverability do with them."""
