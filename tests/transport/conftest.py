"""Fixtures of the client's tests."""

from __future__ import annotations

from tests.fixtures.sessions import queue, session

__all__ = ["queue", "session"]
