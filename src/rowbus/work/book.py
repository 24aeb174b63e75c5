"""The book of a receiver or a worker: one entry for each row of which this process knows something.

What is known is not shared between instances and is lost on restart, as in NServiceBus
(docs/wire-format.md#transaction-modes). What has to outlive the process travels in a message's headers.

Invariant: pure; bounded: the entry that was made longest ago is forgotten first, but none of a row in hand; nothing is
passed over for ever.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from rowbus.running.backoff import doubling

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from rowbus.messages.message import ReadMessage

CAPACITY: Final = 10_000
REFUSALS: Final = 3
"""Completions of a row that fail, through no outage and not by its handler, until it is set aside."""
# Seconds for which a row that cannot be set aside is passed over at first; doubled each time.
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 600.0
MOST_HELD: Final = 1000
"""Rows that are passed over at the same time: each look names them all."""


class Call(Protocol):
    """A call of handlers."""

    is_over: bool
    """Whether it has ended."""


class Entry:
    """The record of one row; as it is made, nothing is known: its fields are the class's, which costs nothing."""

    position: int = 0
    """Where it is in its queue, as far as it was ever passed over."""
    is_in_hand: bool = False
    """Whether a slot has it."""
    ends: float | None = None
    """When its time to be received is over; None: never."""
    is_judged: bool = False
    """Whether the policy has dealt with it: it moves to another queue, or goes, when its transaction commits."""
    is_passed_on: bool = False
    """Whether it only passes through, to the queue in which it belongs."""
    is_alone: bool = False
    """Whether it is handled while nothing else is in its process."""
    put_offs: int = 0
    """Times that it was to be, and something else was."""
    failures: int = 0
    """Attempts that failed."""
    error: BaseException | None = None
    """The exception of the last of them."""
    items: Mapping[str, object] = MappingProxyType({})
    """Notes of its context for the policy."""
    losses: int = 0
    """Servers that went away while it was handled."""
    first_outage: tuple[float, int] | None = None
    """When it met an outage first, and how many others had been completed then."""
    refusals: int = 0
    """Completions that failed."""
    call: Call | None = None
    """The last call of its handlers."""
    read: ReadMessage | None = None
    """The message as it was read, for its next attempt."""
    cancelled: BaseException | None = None
    """The failure of the call that somebody has asked to end."""
    pauses: int = 0
    """Times that it was passed over because it can neither be completed nor moved."""
    held_until: float = 0.0
    """Until when it is passed over."""
    headers: str | None = None
    """The headers that it gets while it waits where it is; None: as they are."""
    noted: str | None = None
    """The id under which its receive noted it as processed, which it has not been."""

    @property
    def leaves(self) -> bool:
        """Whether the row moves to another queue, so that in every mode it leaves with the receive transaction."""
        return self.is_judged or self.is_passed_on

    @property
    def is_called(self) -> bool:
        """Whether its handlers run."""
        return self.call is not None and not self.call.is_over

    def fail(self, error: BaseException, items: Mapping[str, object] = MappingProxyType({})) -> None:
        """Count one more failed attempt."""
        self.failures, self.error, self.items = self.failures + 1, error, items

    def restore(self, failures: int, error: BaseException) -> None:
        """Take over what is known of the row from elsewhere; a higher count of this process stays."""
        if self.failures < failures:
            self.failures, self.error, self.items = failures, error, {}

    def total(self, before: int, more: int) -> int:
        """Return its failures, of which others may know `before`, with `more`; a judged one is not counted again."""
        return max(before, self.failures) + (0 if self.is_judged else more)

    def meet_outage(self, now: float, completed: int) -> tuple[float, int]:
        """Note an outage; return for how many seconds it has met them, and how many others were completed since."""
        since, seen = self.first_outage = self.first_outage or (now, completed)
        return now - since, completed - seen

    def clear(self) -> None:
        """Forget what happened to it: from now on its headers say it. It is in hand, or passed over, as it was."""
        self.failures, self.error, self.items = 0, None, {}
        self.is_judged = self.is_passed_on = self.is_alone = False
        self.losses, self.first_outage = 0, None

    def refuse(self) -> bool:
        """Count a completion that failed; say whether the row is to be set aside."""
        self.refusals += 1
        return self.refusals >= REFUSALS

    def is_blank(self, now: float) -> bool:
        """Say whether there is nothing to know of it."""
        happened = self.failures or self.leaves or self.is_alone or self.losses or self.first_outage
        waits = self.put_offs or self.refusals or self.pauses or self.held_until > now
        return not (happened or waits or self.is_in_hand)


class Book:
    """The entries by the ids of rows; `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float], capacity: int = CAPACITY) -> None:
        """Begin empty; keep at most so many entries of rows that are not in hand."""
        self._clock = clock
        self._capacity = capacity
        self._entries: dict[Hashable, Entry] = {}
        self._held: list[Entry] = []

    def __len__(self) -> int:
        """Return how many rows are known."""
        return len(self._entries)

    def failures(self, row: Hashable) -> int:
        """Return how often attempts at a row have failed."""
        entry = self._entries.get(row)
        return 0 if entry is None else entry.failures

    def entry(self, row: Hashable) -> Entry:
        """Return the entry of a row, a new one if need be."""
        entry = self._entries.get(row)
        if entry is None:
            entry = self._entries[row] = Entry()
            if len(self._entries) > self._capacity:
                self._drop_oldest(entry)
        return entry

    def note(self, read: ReadMessage) -> None:
        """Note what was read of a row, for its next attempt."""
        self.entry(read.row.id).read = read

    def take(self, rows: Sequence[Hashable]) -> list[Hashable]:
        """Note rows as in hand; return those that are already, and then none is taken."""
        entries = self._entries
        taken = [row for row in rows if row in entries and entries[row].is_in_hand]
        for row in () if taken else rows:
            self.entry(row).is_in_hand = True
        return taken

    def let_go(self, rows: Iterable[Hashable]) -> None:
        """Note that rows are in hand no more; what is known of those that failed stays."""
        for row in rows:
            entry = self._entries.get(row)
            if entry is not None:
                entry.is_in_hand = False
                self._drop_blank(row, entry)

    def forget(self, row: Hashable) -> None:
        """Forget a row: it has been dealt with."""
        self.forget_all((row,))

    def forget_all(self, rows: Iterable[Hashable]) -> None:
        """Forget rows."""
        for row in rows:
            entry = self._entries.pop(row, None)
            if entry is not None and entry.held_until:
                entry.held_until = 0.0

    def clear(self) -> None:
        """Forget all rows, of which none is in hand."""
        self._entries.clear()
        self._held.clear()

    # --- which rows are passed over

    def hold_back(self, row: Hashable, position: int, seconds: float) -> None:
        """Have a row passed over for so long, at the least."""
        entry = self.entry(row)
        entry.position, entry.held_until = position, max(entry.held_until, self._clock() + seconds)
        if entry not in self._held:
            self._held.append(entry)
            del self._held[:-MOST_HELD]

    def pass_over(self, row: Hashable, position: int) -> float:
        """Have a row passed over that can be neither completed nor moved; return for how many seconds."""
        entry = self.entry(row)
        entry.pauses += 1
        pause = doubling(entry.pauses, first=FIRST_PAUSE, most=LONGEST_PAUSE)
        self.hold_back(row, position, pause)
        return pause

    def release(self, row: Hashable) -> None:
        """Pass a row over no more."""
        entry = self._entries.get(row)
        if entry is not None:
            entry.held_until = 0.0
            self._drop_blank(row, entry)

    def passed_over(self) -> list[int]:
        """Return the positions of the rows that are passed over now."""
        now = self._clock()
        self._held = [entry for entry in self._held if entry.held_until > now]
        return [entry.position for entry in self._held]

    def held(self) -> dict[int, float]:
        """Return the positions of those rows, and for how many seconds more they are passed over."""
        now = self._clock()
        return {entry.position: entry.held_until - now for entry in self._held if entry.held_until > now}

    def let_pass(self, seconds: float) -> None:
        """Have so much time pass for what is passed over."""
        for entry in self._held:
            entry.held_until -= seconds

    def _drop_blank(self, row: Hashable, entry: Entry) -> None:
        if entry.is_blank(self._clock()):
            del self._entries[row]

    def _drop_oldest(self, newest: Entry) -> None:
        for row, entry in self._entries.items():
            if entry is not newest and not entry.is_in_hand:
                self.forget(row)
                return
