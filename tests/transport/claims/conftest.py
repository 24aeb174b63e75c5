"""Fixtures of the claim check's tests: endpoints, and a folder that stands for the file share."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowbus
from tests.conformance.fixtures import case, endpoints, transport
from tests.transport.requests.conftest import clients

__all__ = ["case", "clients", "endpoints", "share", "transport"]


@pytest.fixture
def share(tmp_path: Path) -> rowbus.FileShare:
    return rowbus.FileShare(tmp_path)
