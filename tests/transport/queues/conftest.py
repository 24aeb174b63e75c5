"""Fixtures of the queues' tests: sessions, and a queue."""

from __future__ import annotations

from tests.fixtures.sessions import asynchronous, in_tokyo, other, queue, receiver, session

__all__ = ["asynchronous", "in_tokyo", "other", "queue", "receiver", "session"]
