"""The tracing headers of a message: W3C's, carried from message to message, and NServiceBus's wish for a new trace.

A process that does not trace carries traces on nevertheless. Receivers are told, as by NServiceBus, whether to continue
them (docs/wire-format.md#tracing).

Invariant: pure: the messages of one handler continue one trace, at every attempt the same.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Mapping

_CARRIED: Final = (Header.TRACESTATE, Header.BAGGAGE)
_PARENT: Final = re.compile(r"(?P<version>[0-9a-f]{2})-[0-9a-f]{32}-[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})")
_WISHES: Final = {"Send": "False", "Publish": "True"}  # a reply has none


def carried_trace(incoming: Mapping[str, str | None]) -> dict[str, str]:
    """Return the trace of what a handler sends: its message's, or a new one if that message wishes it."""
    parent = incoming.get(Header.TRACEPARENT)
    if parent and is_wished(incoming):
        parent = _new_parent(parent, incoming.get(Header.MESSAGE_ID) or "")
    trace = {Header.TRACEPARENT: parent, **{name: incoming.get(name) for name in _CARRIED}}
    return {name: value for name, value in trace.items() if value}


def wish_of(intent: str, headers: Mapping[str, str | None], *, is_delayed: bool) -> dict[str, str | None]:
    """Return the header that says whether the receiver of a message begins a trace of its own, if it has one."""
    if is_delayed and headers.get(Header.TRACEPARENT):
        return {Header.START_NEW_TRACE: "True"}
    return {Header.START_NEW_TRACE: _WISHES[intent]} if intent in _WISHES else {}


def with_new_trace(headers: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the headers of a copy that is handled later, by itself: if it has a trace, a new one begins there."""
    if not headers.get(Header.TRACEPARENT):
        return dict(headers)
    return {**headers, Header.START_NEW_TRACE: "True"}


def is_wished(headers: Mapping[str, str | None]) -> bool:
    """Say whether a message wishes that its receiver begin a trace of its own."""
    return (headers.get(Header.START_NEW_TRACE) or "").strip().lower() == "true"


def _new_parent(parent: str, message_id: str) -> str | None:
    """Return the beginning of a new trace, none where the old one cannot be read."""
    found = _PARENT.fullmatch(parent)
    if found is None:
        return None
    digits = hashlib.sha256(f"{parent} {message_id}".encode("utf-8", "replace")).hexdigest()
    return f"{found['version']}-{digits[:32]}-{digits[32:48]}-{found['flags']}"
