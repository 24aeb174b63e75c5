"""Fixtures of the conformance suite, and the command line of the acceptance tests."""

from __future__ import annotations

from tests.conformance.fixtures import case, endpoints, transport
from tests.fixtures.command_line import ask, rowbus

__all__ = ["ask", "case", "endpoints", "rowbus", "transport"]
