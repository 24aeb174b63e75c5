"""What an address asks for: an error queue, a search in it, where the list begins; nothing that is masked.

Invariants: An address says the whole search, so that it can be shared; what cannot be read is said, and never widens
the search; where paths are masked, a message is found only by its headers, or by what of its body is shown.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError, InvalidAddressError
from rowbus.messages.address import address_of
from rowbus.transport.recoverability.error_queue import ErrorQueue
from rowbus.transport.recoverability.failed_message import Selection
from rowbus.transport.recoverability.failures.index import Search
from rowbus.web.contents import mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.recoverability.failures.index import Failure

ERROR: Final = "error"
FIELDS: Final = ("text", "id", "conversation", "exception", "type", "failed_in", "since", "until", "group")
BYS: Final = ("exception", "type", "endpoint")


class FailureQuery(NamedTuple):
    """An error queue and a search in it; `fields` are those of the address that say something."""

    queue: QueueAddress
    search: Search
    fields: Mapping[str, str]
    before: int | None
    by: str

    @property
    def query(self) -> dict[str, object]:
        """The parameters of the address that mean the same messages."""
        return {"queue": self.fields.get("queue", ""), **{name: self.fields.get(name, "") for name in FIELDS}}

    @property
    def is_search(self) -> bool:
        """Whether not simply all are meant."""
        return self.search != Search()


def asked(fields: Mapping[str, str], addresses: Addresses) -> FailureQuery:
    """Read the parameters of an address, or of a form. Raises ConfigurationError, InvalidAddressError."""
    given = {name: value.strip() for name, value in fields.items() if value.strip()}
    queue = address_of(given.get("queue", ERROR), addresses)
    selection = Selection(
        ids=_set(given.get("id")),
        exceptions=_set(given.get("exception")),
        types=_set(given.get("type")),
        failed_queue=_queue(given.get("failed_in"), queue, addresses),
        since=_moment("since", given.get("since")),
        until=_moment("until", given.get("until")),
    )
    search = Search(selection, given.get("conversation", ""), given.get("group", ""), given.get("text", ""))
    if "\0" in search.text:
        raise ConfigurationError("Nothing that is stored holds the character NUL; search for something else.")
    by = given.get("by", "")
    return FailureQuery(queue, search, given, _position(given.get("before")), by if by in BYS else BYS[0])


def _set(text: str | None) -> frozenset[str]:
    return frozenset((text,)) if text else frozenset()


def _queue(text: str | None, error_queue: QueueAddress, addresses: Addresses) -> QueueAddress | None:
    """Read a queue as people type it; quoted, as pages show it."""
    if not text:
        return None
    try:
        return error_queue.neighbour(text) if text.startswith('"') else address_of(text, addresses)
    except InvalidAddressError as error:
        raise ConfigurationError(f"Where messages failed cannot be {text!r}: {error}") from error


def _moment(name: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{name.capitalize()} {text!r} is no time; write it as 2026-05-01T12:00 (UTC, unless it says another zone)."
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _position(text: str | None) -> int | None:
    return int(text) if text and text.lstrip("-").isdecimal() and len(text) <= 11 else None  # noqa: PLR2004 - 32 bits


def allowed(
    session: Session, queue: QueueAddress, failures: list[Failure], text: str, paths: Sequence[str]
) -> list[Failure]:
    """Return those of the messages found for a text in which it is also found when they are masked."""
    if not paths or not text:
        return failures
    errors = ErrorQueue(session, queue)
    return [failure for failure in failures if _shows(errors, failure, text, paths)]


def _shows(errors: ErrorQueue, failure: Failure, text: str, paths: Sequence[str]) -> bool:
    if failure.failed.row_id == text:
        return True
    row = errors.look(failure.failed)
    if row is None:
        return False
    return text in row.headers or text in mask((row.body or b"").decode("utf-8", "replace"), paths)
