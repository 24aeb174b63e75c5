"""Sharing a batch among workers so that the events of one key stay in order.

Invariant: which part of how many an event belongs to depends on its key alone (without a key: on its id), in every
process, so that the parts of an interrupted batch can be told apart again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from rowbus.errors import ConfigurationError
from rowbus.log.event import Event
from rowbus.running.functions import check_function, is_unawaited
from rowbus.running.scope import contained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    KeyFunction = Callable[[Event], object]


class Mark(NamedTuple):
    """The progress of one part of `parts` in a batch: its events up to `event` are done."""

    parts: int
    part: int
    event: int


class Keys:
    """The key of an event: what a function says, or what a field holds. None means that order does not matter."""

    def __init__(self, key: str | KeyFunction | None) -> None:
        """Take a function of an event, or a field's name; raises ConfigurationError for what is neither."""
        if isinstance(key, str):
            if key not in Event._fields:
                raise ConfigurationError(f"An event has no field {key!r}; it has {', '.join(Event._fields)}.")
            position = Event._fields.index(key)
            self._key: KeyFunction | None = lambda event: event[position]
        else:
            if key is not None:
                check_function(key, "key, which gives the key of an event,", "event")
            self._key = None if key is None else lambda event: contained(partial(key, event))

    def __bool__(self) -> bool:
        """Say whether there are keys at all."""
        return self._key is not None

    def of(self, event: Event) -> str | None:
        """Return the key of an event as text, or None; None also when the user's function fails on it."""
        if self._key is None:
            return None
        try:
            key = self._key(event)
            return None if key is None or is_unawaited(key) else str(key)
        except Exception:  # noqa: BLE001 - its handler will meet the same event, and fail or not
            return None

    def part(self, event: Event, parts: int) -> int:
        """Return which of so many parts an event belongs to."""
        if parts == 1:
            return 0
        key = self.of(event)
        return crc32((f"#{event.id}" if key is None else key).encode()) % parts

    def split(self, events: Iterable[Event], parts: int) -> list[list[Event]]:
        """Return the events of each part, in the order given."""
        if parts == 1:
            return [list(events)]
        split: list[list[Event]] = [[] for _ in range(parts)]
        for event in events:
            split[self.part(event, parts)].append(event)
        return split

    def left(self, events: Sequence[Event], marks: Sequence[Mark]) -> Sequence[Event]:
        """Return the events that are not done, by the marks of an interrupted batch."""
        if not marks:
            return events
        done = {(mark.parts, mark.part): mark.event for mark in marks}
        sizes = {mark.parts for mark in marks}
        return [
            event
            for event in events
            if all(event.id > done.get((parts, self.part(event, parts)), event.id - 1) for parts in sizes)
        ]


def resume_after(marks: Sequence[Mark]) -> int | None:
    """Return the event up to which all parts are done, or None if some part has not begun."""
    whole = [
        min(mark.event for mark in marks if mark.parts == parts)
        for parts in {mark.parts for mark in marks}
        if len({mark.part for mark in marks if mark.parts == parts}) == parts
    ]
    return max(whole, default=None)
