"""What is wrong with an answer of a delayed message store.

Invariant: pure; each answer of a store is looked at before anything relies on it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from rowbus.errors.printable import printable
from rowbus.transport.delayed_store.protocol import DelayedMessage

PRECISION: Final = timedelta(milliseconds=1)
"""A store may keep times to the millisecond, so a message may seem due so much later than it was fetched."""

_LONGEST: Final = 100
_PARTS: Final = {"message_id": str, "destination": str, "headers": bytes, "body": bytes}


def wrong_time(answer: object) -> str | None:
    """Say what is wrong with an answer of `next`, None if nothing is."""
    return None if answer is None else _wrong_instant(answer, "an aware datetime or None")


def wrong_message(answer: object, at: datetime) -> str | None:
    """Say what is wrong with an answer of `fetch_next_due(at)`, None if nothing is."""
    if answer is None:
        return None
    if not isinstance(answer, DelayedMessage):
        return f"{_shown(answer)}, not a DelayedMessage or None"
    wrong = _wrong_part(answer) or _wrong_instant(answer.time, "a message whose time is an aware datetime")
    if wrong is None and answer.time > at + PRECISION:
        return f"a message that is due at {answer.time}, when it was asked for what is due at {at}"
    return wrong


def wrong_truth(answer: object) -> str | None:
    """Say what is wrong with an answer of `remove` and `increment_failure_count`; a row count of 0 or 1 is right."""
    return None if isinstance(answer, int) and answer in {0, 1} else f"{_shown(answer)}, not True or False"


def _wrong_instant(answer: object, wanted: str) -> str | None:
    if not isinstance(answer, datetime):
        return f"{_shown(answer)}, not {wanted}"
    if answer.utcoffset() is None:
        return f"{_shown(answer)}, which has no time zone: it must be {wanted}"
    return None


def _shown(answer: object) -> str:
    return f"{printable(repr(answer), _LONGEST)} ({type(answer).__name__})"


def _wrong_part(message: DelayedMessage) -> str | None:
    for name, kind in _PARTS.items():
        if not isinstance(part := getattr(message, name), kind):
            return f"a message whose {name} is {_shown(part)}, not {kind.__name__}"
    count: object = getattr(message, "number_of_retries")  # noqa: B009 - its declared type is not to be trusted
    if not isinstance(count, int) or count < 0:
        return f"a message whose number_of_retries is {_shown(count)}, not a number from 0"
    return None
