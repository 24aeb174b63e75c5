"""The attempts at a message before its latest, as one header that goes with it (docs/wire-format.md#retries).

Invariant: pure and total: a header that makes no sense, which anybody who sends can write, tells nothing. It is bounded
in attempts and in the length of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from rowbus.errors import InvalidTimestampError
from rowbus.errors.exception_facts import writable
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

MOST: Final = 10  # the latest ones
LONGEST: Final = 500  # characters of a field
_LONGEST_HEADER: Final = 100_000
_AT: Final = "   at "


class PastAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failed attempt, and what was done then."""

    time: str
    place: str
    exception: str
    reason: str
    where: str = ""
    then: str = ""

    @property
    def at(self) -> datetime | None:
        """When it failed, None if that cannot be read."""
        try:
            return parse_timestamp(self.time)
        except InvalidTimestampError:
            return None


def past_attempts(headers: Mapping[str, str | None]) -> list[PastAttempt]:
    """Return the attempts that a message's headers tell of, the first one first."""
    text = headers.get(Header.ATTEMPTS) or ""
    if len(text) > _LONGEST_HEADER:
        return []
    try:
        return msgspec.json.decode(text, type=list[PastAttempt])[-MOST:]
    except msgspec.MsgspecError:
        return []


def failed_before(headers: Mapping[str, str | None], then: str) -> PastAttempt:
    """Return the attempt of which the story in a failed message's headers tells."""
    names = (
        Header.TIME_OF_FAILURE,
        Header.PROCESSING_ENDPOINT,
        Header.PROCESSING_MACHINE,
        Header.EXCEPTION_TYPE,
        Header.EXCEPTION_MESSAGE,
        Header.EXCEPTION_STACK_TRACE,
    )
    time, endpoint, machine, exception, reason, trace = (headers.get(name) or "" for name in names)
    place = f"{endpoint} on {machine}" if machine else endpoint
    return _bounded(PastAttempt(time, place, exception, reason, _first_call(trace), then=then))


def attempts_header(headers: Mapping[str, str | None], latest: PastAttempt) -> dict[str, str | None]:
    """Return the header that tells of the attempts so far, and of one more."""
    told = [*past_attempts(headers), latest][-MOST:]
    return {Header.ATTEMPTS: msgspec.json.encode(told).decode()}


def _bounded(attempt: PastAttempt) -> PastAttempt:
    names = ("time", "place", "exception", "reason", "where", "then")
    cut = {name: writable(getattr(attempt, name))[:LONGEST] for name in names}
    return msgspec.structs.replace(attempt, **cut)


def _first_call(trace: str) -> str:
    """Return the call that raised, as a trace in the form of .NET's names it."""
    return next((line.removeprefix(_AT) for line in trace.splitlines() if line.startswith(_AT)), "")
