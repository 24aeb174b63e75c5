"""The command line: one module a noun, one function a verb, each of which calls what the Python API calls.

Exit codes: 0 done, 1 it failed or nothing matched, 2 it could not be meant that way. Results go to the standard
output, everything else to the standard error.

Invariant: a command that changes something says what it changed, and one that reads changes nothing.
"""

from __future__ import annotations

from rowbus.cli.application import app, main

__all__ = ["app", "main"]
