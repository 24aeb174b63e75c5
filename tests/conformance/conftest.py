"""Fixtures of the conformance suite."""

from __future__ import annotations

from tests.conformance.fixtures import case, endpoints, transport

__all__ = ["case", "endpoints", "transport"]
