"""Failed messages as `rowbus errors` shows them, to people and to programs.

Invariant: a message that says little about itself, or cannot be read, is shown all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.cli.queue.listing import cut_note
from rowbus.cli.queue.listing import message_as_json as row_as_json
from rowbus.contracts.bodies import find_misfits
from rowbus.errors.strangers import printable
from rowbus.messages.headers import Header
from rowbus.messages.message import read_body, read_headers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.contracts.contract import PublishedContract
    from rowbus.messages.message import PeekedMessage
    from rowbus.transport.recoverability.failed_message import FailedMessage, Group

PREVIEW = 60  # characters of what an exception says
# Shown last, on lines of its own: Python's, which has the source, and only without it .NET's.
_TRACES = (Header.EXCEPTION_TRACEBACK, Header.EXCEPTION_STACK_TRACE)


class Groups(NamedTuple):
    """Failed messages, counted."""

    groups: Sequence[Group]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return "count#", "exception", "type", "failed in", "last failed", "reason"

    def rows(self) -> list[tuple[object, ...]]:
        """Return a row for each group."""
        return [
            (one.size, *_kind(one.latest), _time(one.latest.failed_at), _reason(one.latest))
            for one in self.groups
        ]

    def as_json(self) -> list[dict[str, object]]:
        """Return the groups for programs."""
        return [
            {
                "count": one.size,
                **_kind_json(one.latest),
                "first_failed_at": one.first_failed_at,
                "last_failed_at": one.latest.failed_at,
                "last_message_id": one.latest.message_id,
                "last_reason": one.latest.reason,
            }
            for one in self.groups
        ]


class Each(NamedTuple):
    """Failed messages, one by one."""

    messages: Sequence[FailedMessage]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return "failed", "exception", "type", "failed in", "message id", "reason"

    def rows(self) -> list[tuple[object, ...]]:
        """Return a row for each message."""
        return [(_time(one.failed_at), *_kind(one), one.message_id, _reason(one)) for one in self.messages]

    def as_json(self) -> list[dict[str, object]]:
        """Return the messages for programs."""
        return [message_json(one) for one in self.messages]


def message_json(failed: FailedMessage) -> dict[str, object]:
    """Return a failed message for programs, without its body."""
    return {
        "message_id": failed.message_id,
        "row_id": failed.row_id,
        **_kind_json(failed),
        "reason": failed.reason,
        "failed_at": failed.failed_at,
        "endpoint": failed.endpoint or None,
    }


def misfits_of(
    published: Sequence[PublishedContract], failed: FailedMessage, row: PeekedMessage
) -> list[str]:
    """Return what in a body does not fit the contract of the endpoint that failed to handle it."""
    queue = failed.failed_queue
    return [] if queue is None else find_misfits(published, queue, failed.type, row.body or b"")


def whole_json(failed: FailedMessage, row: PeekedMessage, misfits: Sequence[str]) -> dict[str, object]:
    """Return a failed message for programs, with its headers and body, and what does not fit in it."""
    told = {"misfits": list(misfits)} if misfits else {}
    return {**message_json(failed), **row_as_json(row), **told}


def in_full(failed: FailedMessage, row: PeekedMessage, misfits: Sequence[str]) -> str:
    """Return all there is to say of a failed message, its stack trace (indented) and its body last."""
    headers, body = read_headers(row.headers), read_body(row.body)
    lines = [f"--- message {printable(failed.message_id)}, row {row.id}"]
    if headers is None:
        lines.append(f"(headers cannot be read) {printable(row.headers)}")
    else:
        lines += [
            printable(f"{name}: {_value(value)}") for name, value in headers.items() if name not in _TRACES
        ]
        if trace := next(filter(None, map(headers.get, _TRACES)), None):
            lines += ["stack trace:", *(f"  {line}" for line in trace.rstrip().splitlines())]
    lines += [printable(f"does not fit: {misfit}") for misfit in misfits]
    note = "" if body.encoding == "utf-8" else f" ({body.encoding})"
    return "\n".join([*lines, f"body{note}{cut_note(row)}: {_value(body.text)}"])


def _kind(failed: FailedMessage) -> tuple[str, str, str]:
    exception = failed.exception if failed.is_readable else "(headers cannot be read)"
    return exception, failed.type, "" if failed.failed_queue is None else str(failed.failed_queue)


def _kind_json(failed: FailedMessage) -> dict[str, object]:
    return {
        "exception": failed.exception or None,
        "type": failed.type or None,
        "failed_queue": None if failed.failed_queue is None else str(failed.failed_queue),
        "readable": failed.is_readable,
    }


def _time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else ""


def _reason(failed: FailedMessage) -> str:
    line = " ".join(failed.reason.split())
    return line if len(line) <= PREVIEW else f"{line[: PREVIEW - 1]}…"


def _value(text: str | None) -> str:
    return "(null)" if text is None else text
