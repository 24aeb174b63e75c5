"""Fixtures of the database's tests: sessions, a queue, and a receiver."""

from __future__ import annotations

from tests.fixtures.sessions import asynchronous, in_tokyo, other, queue, receiver, session

__all__ = ["asynchronous", "in_tokyo", "other", "queue", "receiver", "session"]
