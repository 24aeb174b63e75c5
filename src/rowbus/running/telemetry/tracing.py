"""Whether this process traces: it does when its program has set OpenTelemetry up.

Nothing of OpenTelemetry is imported here before the program has imported it. So a process without it pays for a look
into a dictionary, and any set-up is honoured: the program's own, or `opentelemetry-instrument`.

Invariant: without an SDK no span is made.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rowbus.running.telemetry.spans import Spans

_API: Final = "opentelemetry.trace"

_spans: Spans | None = None


def tracing() -> Spans | None:
    """Return what makes spans; None: tracing is off."""
    if _spans is None and _API in sys.modules:
        return _look()
    return _spans


def _look() -> Spans | None:
    """Take the program's set-up, if it has one; the API's own providers only stand in for one."""
    api = sys.modules[_API]
    find = getattr(api, "get_tracer_provider", None)  # none while the module is being imported
    provider = None if find is None else find()
    if provider is not None and not type(provider).__module__.startswith(_API):
        use(provider)
    return _spans


def use(provider: object) -> None:
    """Make spans with a provider of the program's; None: make none, unless OpenTelemetry is set up."""
    global _spans  # noqa: PLW0603 - a process has one set-up
    spans = None if provider is None else import_module("rowbus.running.telemetry.spans").Spans(provider)
    _spans = spans
