"""Fixtures of the tests of delayed message stores: the conformance suite's, and the two places a store may be in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rowbus.running import backoff
from rowbus.transport.delayed_store import decisions
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints
from tests.conformance.fixtures import case, endpoints, transport
from tests.transport.delayed_store.place import FOREIGN, SHARED, Place

__all__ = ["case", "endpoints", "transport"]

QUICKLY = 0.05


@pytest.fixture(params=[SHARED, FOREIGN])
async def place(
    request: pytest.FixtureRequest, backend: Backend, endpoints: Endpoints
) -> AsyncIterator[Place]:
    """Give a store in the queues' database, and one elsewhere: the test runs with each."""
    async with Place.open(request.param, backend, endpoints) as place:
        yield place


@pytest.fixture
async def shared(backend: Backend, endpoints: Endpoints) -> AsyncIterator[Place]:
    """Give a store in the queues' database."""
    async with Place.open(SHARED, backend, endpoints) as place:
        yield place


@pytest.fixture
async def foreign(backend: Backend, endpoints: Endpoints) -> AsyncIterator[Place]:
    """Give a store in a database of its own."""
    async with Place.open(FOREIGN, backend, endpoints) as place:
        yield place


@pytest.fixture
def quick_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a failure wait 50 ms instead of 1 s, and 10 s once critical."""
    for module, name in (
        (backoff, "WAIT_WHEN_ARMED"),
        (backoff, "WAIT_WHEN_TRIGGERED"),
        (decisions, "LONGEST_PAUSE"),
    ):
        monkeypatch.setattr(module, name, QUICKLY)
