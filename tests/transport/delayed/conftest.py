"""Fixtures of the tests of delayed delivery: the conformance suite's, and a look into tables of delayed messages."""

from __future__ import annotations

import pytest

from tests.conformance.backend import Backend
from tests.conformance.fixtures import case, endpoints, transport
from tests.transport.delayed.table import Delayed

__all__ = ["case", "delayed", "endpoints", "transport"]


@pytest.fixture
def delayed(backend: Backend) -> Delayed:
    """Give what looks into, and writes to, the table of delayed messages of the endpoint Sales."""
    return Delayed(backend)
