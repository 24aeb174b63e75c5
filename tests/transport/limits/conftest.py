"""Fixtures of the tests of rate limits: the conformance suite's."""

from __future__ import annotations

from tests.conformance.fixtures import case, endpoints, transport

__all__ = ["case", "endpoints", "transport"]
