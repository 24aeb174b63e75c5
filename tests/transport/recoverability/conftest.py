"""Fixtures of the conformance suite, and the command line of the acceptance tests."""

from __future__ import annotations

from tests.fixtures.command_line import ask, rowbus
from tests.conformance.fixtures import case, endpoints, transport

__all__ = ["ask", "case", "endpoints", "rowbus", "transport"]
