"""Fixtures of the contract suite: each test runs in memory and on PostgreSQL."""

from __future__ import annotations

import pytest

from rowbus import Endpoint
from tests.testing.transports import InMemory, PostgreSql, Transport


@pytest.fixture(params=["in memory", "on PostgreSQL"])
def transport(request: pytest.FixtureRequest, database: str) -> Transport:
    return InMemory() if request.param == "in memory" else PostgreSql(database)


@pytest.fixture
def sales(transport: Transport) -> Endpoint:
    return transport.endpoint()
