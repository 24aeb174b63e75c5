"""What is known of a message whose handling was interrupted, and how its headers keep that: pure functions.

A handler that loses its connection, or its whole process, loses with it the transaction in which its failure would be
counted. So the count travels with the message: it is put back with two headers, which the next receiver reads and
removes (docs/architecture/receiving.md#interruptions).

Invariant: the headers are never shown to handlers, and what of them makes no sense is ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import HandlingInterruptedError, MalformedHeadersError
from rowbus.errors.strangers import cause_of, context_of, printable, sqlstate_of, text_of
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.running.in_hand import RowInHand

MOST_CAUSES: Final = 20  # of an exception, looked at
LONGEST: Final = 500  # characters of what was seen
PROCESS: Final = "The process that handled the message "
"""The beginning of what was seen when a process died. A message of this kind is handled alone in its process."""

UNEXPLAINED: Final = 3
"""How often in a row one message may be in hand when its server goes away, before that counts against it."""

_COUNT: Final = re.compile(r"[0-9]{1,6}")
_ADVICE: Final = {
    "25P03": "idle_in_transaction_session_timeout is shorter than the handler's work outside of the database: raise it "
    "for the endpoint's role",
    "25P04": "transaction_timeout is shorter than the handler: raise it for the endpoint's role",
    "57P05": "idle_session_timeout is too short: raise it for the endpoint's role",
}


class Interruption(NamedTuple):
    """How often a message failed before it was put back, and what was seen the last time."""

    times: int
    said: str

    @property
    def took_its_process(self) -> bool:
        """Whether a process died of it, perhaps."""
        return self.said.startswith(PROCESS)

    def error(self) -> HandlingInterruptedError:
        """Return the failure that the policy is asked about."""
        times = "once" if self.times == 1 else f"{self.times} times"
        return HandlingInterruptedError(
            f"Handling this message failed {times}; the last time it was interrupted. {self.said}",
            times=self.times,
            said=self.said,
        )


def lost_process_in(text: str) -> Interruption | None:
    """Return what a header text says of a message that is to be handled alone in its process; None of others."""
    try:
        interruption = interruption_in(text)
    except MalformedHeadersError:
        return None
    return interruption if interruption is not None and interruption.took_its_process else None


def blamed(held: Sequence[RowInHand]) -> list[tuple[RowInHand, int]]:
    """Return what a process had in hand when it died, each with what that adds to its count of failures.

    Counted is what it is known of: the only one, or the one that was handled alone because it was suspected. The others
    are suspected from now on.
    """
    known = held if len(held) == 1 else [each for each in held if each.alone]
    return [(each, 1 if each in known else 0) for each in held]


def is_suspect(text: str) -> bool:
    """Say whether a header text is that of a message that is to be received alone; it costs next to nothing."""
    return Header.FAILED_ATTEMPTS in text


def take_out(headers: dict[str, str | None]) -> Interruption | None:
    """Remove the two headers, and return what they say; None if nothing that makes sense."""
    if Header.FAILED_ATTEMPTS not in headers and Header.INTERRUPTION not in headers:
        return None  # as nearly always
    times = (headers.pop(Header.FAILED_ATTEMPTS, None) or "").strip()
    said = headers.pop(Header.INTERRUPTION, None) or ""
    return Interruption(int(times), said) if _COUNT.fullmatch(times) else None


def interruption_in(text: str) -> Interruption | None:
    """Return what a header text says. Raises MalformedHeadersError."""
    return take_out(decode_headers(text)) if is_suspect(text) else None


def with_interruption(text: str, interruption: Interruption) -> str:
    """Return the header text with which an interrupted message is put back. Raises MalformedHeadersError."""
    return encode_copied_headers(
        {
            **decode_headers(text),
            Header.FAILED_ATTEMPTS: str(interruption.times),
            Header.INTERRUPTION: interruption.said,
        }
    )


def message_id_in(text: str, row_id: str) -> str:
    """Return the id by which people know a message with this header text."""
    try:
        return decode_headers(text).get(Header.MESSAGE_ID) or row_id
    except MalformedHeadersError:
        return row_id


def lost_connection(error: BaseException) -> str:
    """Say what was seen when a connection broke, and what to set where that is known."""
    seen, state = _first_said(error)
    advice = _ADVICE.get(state or "")
    text = (
        f"Its connection broke while it was handled, and the server lived on: {printable(seen, LONGEST // 2)}"
    )
    return f"{text} ({advice}.)" if advice else text


def lost_server(error: BaseException) -> str:
    """Say what was seen when the server went away with a message in hand, again and again."""
    seen, _state = _first_said(error)
    return f"The server went away {UNEXPLAINED} times in a row while it was handled: {printable(seen, LONGEST // 2)}"


def lost_process(how: str) -> str:
    """Say what was seen when a process died with messages in hand."""
    return f"{PROCESS}{how}."


def _first_said(error: BaseException) -> tuple[str, str | None]:
    """Return what the database said, and its SQLSTATE: the deepest cause that has one, else the error itself."""
    chain = list(_causes(error))
    for cause in reversed(chain):
        if (state := sqlstate_of(cause)) is not None:
            return text_of(cause), state
    return text_of(chain[0]), None


def _causes(error: BaseException) -> list[BaseException]:
    chain = [error]
    while len(chain) < MOST_CAUSES and (before := _before(chain[-1])) is not None:
        chain.append(before)
    return chain


def _before(error: BaseException) -> BaseException | None:
    cause = cause_of(error)
    return context_of(error) if cause is None else cause
