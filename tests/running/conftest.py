"""Threads for the tests of what is called in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rowbus.running.threads import Threads
from tests.running.used import Connection


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def pool() -> Iterator[Threads]:
    pool = Threads("test")
    yield pool
    pool.close()


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Give what lets a call end that waits for it."""
    event = threading.Event()
    yield event
    event.set()
