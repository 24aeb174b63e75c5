"""Fixtures of this suite and of tests/endpoint: a backend, and transports and endpoints on it for each case."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest

from tests.conformance.backend import BACKENDS, Backend
from tests.conformance.endpoints import Endpoints
from tests.conformance.transport import SENDS_ATOMIC, Case, Transport


@pytest.fixture(params=list(BACKENDS))
async def backend(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Backend]:
    """Give an empty database of this test's own."""
    backend = await BACKENDS[cast("str", request.param)].open(database)
    yield backend
    await backend.close()


@pytest.fixture
def case() -> Case:
    """Give the case of tests that are not parametrised over it: the default mode."""
    return SENDS_ATOMIC


@pytest.fixture
async def transport(backend: Backend, case: Case) -> AsyncIterator[Transport]:
    """Give a transport whose queue and error queue exist; tests start it."""
    transport = Transport(backend, case)
    await transport.create()
    await transport.open()
    yield transport
    await transport.close()


@pytest.fixture
async def endpoints(backend: Backend, case: Case) -> AsyncIterator[Endpoints]:
    """Give what makes endpoints, and stops them in the end."""
    endpoints = Endpoints(backend, case)
    yield endpoints
    await endpoints.stop_all()
