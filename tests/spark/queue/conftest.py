"""Fixtures of the queue source's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.queue.queues import Queue


@pytest.fixture
def queue(database: str) -> Iterator[Queue]:
    """Give an empty queue; what reads it is stopped in the end."""
    made = Queue(database)
    yield made
    for reader in made.readers:
        reader.stop()
