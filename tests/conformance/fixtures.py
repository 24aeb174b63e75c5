"""Fixtures of this suite and of tests/endpoint: transports and endpoints on a backend, for each case."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints
from tests.conformance.transport import SENDS_ATOMIC, Case, Transport


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
