"""Fixtures of the tests of requests: the conformance suite's, and what makes clients that end with their test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from tests.conformance.fixtures import case, endpoints, transport

if TYPE_CHECKING:
    from tests.conformance.backend import Backend

__all__ = ["Clients", "case", "clients", "endpoints", "transport"]


class Clients:
    """Makes clients that ask in the test's schema."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._made: list[rowbus.AsyncRequestClient] = []

    def make(self, endpoint: str = "Web", **options: Any) -> rowbus.AsyncRequestClient:  # noqa: ANN401 - the client's own
        client = rowbus.AsyncRequestClient(
            endpoint, database=self.backend.dsn, schema=self.backend.schema, **options
        )
        self._made.append(client)
        return client

    async def queues(self) -> list[str]:
        """Return the names of the queues of answers that there are."""
        return [name for name in await self.backend.tables() if ".answers-" in name]

    async def stop_all(self) -> None:
        for client in self._made:
            await client.stop()


@pytest.fixture
async def clients(backend: Backend) -> AsyncIterator[Clients]:
    """Give what makes clients, and stops them in the end."""
    clients = Clients(backend)
    yield clients
    await clients.stop_all()
