"""Decisions of receiving: how many receives, from where and how large, and what is known of interrupted messages.

A round ramps up instead of firing `concurrency` deletes at an estimate: one receive first, and with every message
found, twice as many may follow. The first receive that finds nothing ends the round, so competing instances cost each
other one empty receive each, not a storm (docs/wire-format.md#receive).

While a session holds a snapshot open, the entries of consumed messages cannot be cleaned away, and a scan from the
start wades through all of them (docs/wire-format.md#receive). So a receiver begins a little below the last position it
saw. What it thereby misses, a message that was rolled back or committed late, a full look finds.

Dear full looks come less often. A look that hung, in the network or behind a lock, says nothing of what looks cost. So
of two in a row the quicker one counts, and of several beside each other, which hang together, the one that ended first.

How many messages a slot receives in one transaction, its unit, the endpoint may leave to it. A unit doubles while
messages wait and handlers are quick, and is small again where that would make a message wait for others: at rest, after
a failure, beside slow handlers.

A handler that loses its connection, or its whole process, loses with it the transaction in which its failure would be
counted. So the count travels with the message: it is put back with two headers, which the next receiver reads and
removes (docs/architecture/receiving.md#interruptions).

Invariants: all is pure bookkeeping; it never waits and knows no clock but one that it is given. A full look falls due
`LONGEST_INTERVAL` after the one before at the latest, whatever looks cost, and no message stays below the bound for
longer than that. While full looks take less than half a second, `RESERVE` of the time at most goes into them. A message
that expired while nothing received is not said to have been missed. Nothing that is handled changes by the size of its
unit but when it commits. The two headers are never shown to handlers, and what of them makes no sense is ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from rowbus.errors import HandlingInterruptedError, InvalidTimestampError, MalformedHeadersError
from rowbus.errors.strangers import cause_of, context_of, printable, sqlstate_of, text_of
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers
from rowbus.messages.timestamps import parse_time_span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowbus.running.in_hand import RowInHand

FROM_THE_START = -(2**31)  # the smallest int4: `seq` may be anything
MARGIN = 16  # positions below the last: cheap to read, and covers senders that commit slightly out of order
INTERVAL = 0.1  # seconds between full looks, when they are cheap
LONGEST_INTERVAL = 10.0  # when they are dear, or seemed so: what they find has waited long enough by then
RESERVE = 0.05  # the share of time that full looks may take between these two

SHORT: Final = 2.0
"""Seconds to be received in that polling cannot keep: an idle receiver looks every `peek_delay`, a second."""

LARGEST: Final = 100
"""Messages of the largest unit."""
LONGEST = 0.010
"""Seconds that the handlers of a unit are to take together, at most."""

MOST_CAUSES: Final = 20  # of an exception, looked at
MOST_SEEN: Final = 500  # characters of what was seen
PROCESS: Final = "The process that handled the message "
"""The beginning of what was seen when a process died. A message of this kind is handled alone in its process."""
UNEXPLAINED: Final = 3
"""Times in a row that one message may be in hand when its server goes away, before that counts against it."""

_COUNT: Final = re.compile(r"[0-9]{1,6}")
_ADVICE: Final = {
    "25P03": "idle_in_transaction_session_timeout is shorter than the handler's work outside of the database: raise it "
    "for the endpoint's role",
    "25P04": "transaction_timeout is shorter than the handler: raise it for the endpoint's role",
    "57P05": "idle_session_timeout is too short: raise it for the endpoint's role",
}


class Round:
    """One round: at most `records` messages (None: no bound), at most `concurrency` receives at a time."""

    def __init__(self, *, concurrency: int, records: int | None = None) -> None:
        """Begin a round in which one receive may start."""
        self._concurrency = concurrency
        self._left = records
        self._allowed = 1
        self.receiving = 0
        self._travelling = 0  # of these, how many begin with the commit of what was handled before
        self.received = 0
        self.ended = False

    def try_start(self, most: int = 1, *, travels: bool = False) -> int:
        """Return how many messages a receive started now may ask for, up to `most`; 0 when it may not start.

        `travels`: it travels with a commit, which may have to wait for anything.
        """
        if self.ended or self.receiving >= self._allowed:
            return 0
        granted = most if self._left is None else min(most, self._left)
        if granted <= 0:
            return 0
        self.receiving += 1
        self._travelling += travels
        if self._left is not None:
            self._left -= granted
        return granted

    def finished(self, found: int, *, travelled: bool = False) -> None:
        """Note what a receive found; nothing ends the round."""
        self.receiving -= 1
        self._travelling -= travelled
        self.received += found
        if found:
            self._allowed = min(self._allowed * 2, self._concurrency)
        else:
            self.ended = True

    def abandon(self) -> None:
        """End the round because a receive failed or the endpoint stops."""
        self.ended = True

    @property
    def over(self) -> bool:
        """Whether no receive is under way and none may start: time to peek."""
        return self.receiving == 0 and (self.ended or self._left == 0)

    @property
    def only_travels(self) -> bool:
        """Whether all it waits for are receives whose commits have not come through."""
        return self.receiving == self._travelling and (self.ended or self._left == 0)


class LowerBound:
    """The bound one receiver uses for one queue; `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with a full look."""
        self._clock = clock
        self._bound = FROM_THE_START
        self._interval = INTERVAL
        self._next_full_look = self._last_end = clock()
        self._last_cost = 0.0  # seconds that the full look before took

    @property
    def full_look_due(self) -> bool:
        """Whether the next look should be from the start."""
        return self._clock() >= self._next_full_look

    def value(self) -> int:
        """Return the bound for the next look: the start when a full look is due."""
        return FROM_THE_START if self.full_look_due else self._bound

    def claim(self) -> int:
        """Return the bound for the next look, and leave a full look that is due to this one alone."""
        bound = self.value()
        if bound == FROM_THE_START:
            self._next_full_look = self._clock() + self._interval
        return bound

    def looked(self, bound: int, started: float, last: int | None) -> None:
        """Note a look that used `bound` and began at `started`, and the last position that it saw, if any."""
        if bound == FROM_THE_START:
            self._note_cost(started)
        if last is not None:
            below = last - MARGIN
            self._bound = below if bound == FROM_THE_START else max(self._bound, below)

    def returned(self, position: int) -> None:
        """Note that a message went back to its place."""
        self._bound = min(self._bound, position)

    def forget(self) -> None:
        """Have the next look be from the start: in a queue with order nothing may be passed over."""
        self._bound = FROM_THE_START

    def _note_cost(self, started: float) -> None:
        """Note a full look that ends now, unless it began beside the last one that counted."""
        if started < self._last_end:
            return
        now = self._clock()
        cost, self._last_cost = min(now - started, self._last_cost), now - started
        self._interval = min(max(INTERVAL, cost / RESERVE), LONGEST_INTERVAL)
        self._next_full_look, self._last_end = now + self._interval, now


class Unit:
    """The size of a slot's next unit, always `least` or `most` or between them."""

    def __init__(self, batch_size: int | Literal["auto"], most: int = LARGEST) -> None:
        """Begin small, in an endpoint with this setting: a number is the size of all, `most` at most."""
        self._most = most if batch_size == "auto" else min(batch_size, most)
        self.size = self._least = 1 if batch_size == "auto" else self._most

    def handled(self, count: int, seconds: float) -> None:
        """Note that so many messages were received at a time, and all handled well, in so many seconds."""
        wanted = 2 * self.size if count >= self.size else count
        fitting = int(LONGEST * count / seconds) if seconds > 0 else self._most
        self.size = max(self._least, min(wanted, fitting, self._most))

    def begin_anew(self) -> None:
        """Note that nothing waits, or that something failed."""
        self.size = self._least


def is_missed(time_left: float, headers: Mapping[str, str | None]) -> bool:
    """Say whether a message expired a moment ago, of a time to be received that polling cannot keep."""
    try:
        lifetime = parse_time_span(headers.get(Header.TIME_TO_BE_RECEIVED) or "")
    except InvalidTimestampError:
        return False
    return lifetime.total_seconds() <= SHORT and -SHORT < time_left <= 0


# -------------------------------------------------------------------------------------------------------- interruptions


class Interruption(NamedTuple):
    """The number of times a message failed before it was put back, and what was seen the last time."""

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
    interruption = interruption_in(text)
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
    """Return what a header text says; None if nothing, or nothing that can be read."""
    try:
        return take_out(decode_headers(text)) if is_suspect(text) else None
    except MalformedHeadersError:
        return None


def count_in(text: str) -> int:
    """Return how often a message had failed when it was put back; 0 if its headers do not say."""
    interruption = interruption_in(text)
    return 0 if interruption is None else interruption.times


def with_interruption(text: str, interruption: Interruption) -> str:
    """Return the header text with which an interrupted message is put back. Raises MalformedHeadersError."""
    return encode_copied_headers(
        {
            **decode_headers(text),
            Header.FAILED_ATTEMPTS: str(interruption.times),
            Header.INTERRUPTION: interruption.said,
        }
    )


def lost_connection(error: BaseException) -> str:
    """Say what was seen when a connection broke, and what to set where that is known."""
    seen, state = _first_said(error)
    advice = _ADVICE.get(state or "")
    text = f"Its connection broke while it was handled, and the server lived on: {printable(seen, MOST_SEEN // 2)}"
    return f"{text} ({advice}.)" if advice else text


def lost_server(error: BaseException) -> str:
    """Say what was seen when the server went away with a message in hand, again and again."""
    seen, _state = _first_said(error)
    return f"The server went away {UNEXPLAINED} times in a row while it was handled: {printable(seen, MOST_SEEN // 2)}"


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
