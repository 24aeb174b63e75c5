"""Fixtures of the client's tests."""

from __future__ import annotations

from tests.conformance.fixtures import case, endpoints
from tests.fixtures.sessions import queue, session

__all__ = ["case", "endpoints", "queue", "session"]
