"""Fixtures of the conformance suite."""

from __future__ import annotations

from tests.conformance.fixtures import backend, case, endpoints, transport

__all__ = ["backend", "case", "endpoints", "transport"]
