"""Fixtures of the contract suite: each test runs in memory and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowbus import Endpoint
from tests.fixtures.database import new_database
from tests.testing.transports import InMemory, PostgreSql, Transport


@pytest.fixture(params=["in memory", "on PostgreSQL"])
def transport(request: pytest.FixtureRequest, postgres_server: str) -> Iterator[Transport]:
    if request.param == "in memory":
        yield InMemory()
    else:
        with new_database(postgres_server) as database:
            yield PostgreSql(database)


@pytest.fixture
def sales(transport: Transport) -> Endpoint:
    return transport.endpoint()
