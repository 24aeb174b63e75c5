"""Appending to a log: the base classes of `Log` and `AsyncLog`.

Invariant: nothing is committed here; an event exists when the caller's transaction commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, cast

from rowbus.database.postgresql.borrowed import alone
from rowbus.errors import ConfigurationError
from rowbus.log.event import Event
from rowbus.messages.dispatch import AppendedEvent, appended_event, event_content
from rowbus.transport.events import log_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowbus.database.postgresql.connection import AsyncSession, Session
    from rowbus.database.statements import Row

CHUNK = 1000
"""The number of events one statement appends for a role that may not COPY."""

_FIELDS = frozenset(AppendedEvent._fields) - {"log"}
_MOST = len(_FIELDS)

_PLAIN = 2  # type and data

Fields = tuple[str | None, ...]
"""An event's type and data, and extras, if it has any."""


class AppendingLog:
    """Appends through the user's synchronous connection."""

    name: str
    _borrowed: Callable[[], Session]

    def append(
        self,
        data: object = None,
        *,
        type: str | None = None,
        extra1: str | None = None,
        extra2: str | None = None,
        extra3: str | None = None,
        extra4: str | None = None,
    ) -> int:
        """Append one event in your transaction and return its id.

        `data` is text as it is, bytes that are UTF-8, or any object that has JSON. An object whose class is declared
        with `rowbus.event` gives the type, unless `type` does. Raises LogNotFoundError, StorageError,
        MessageSerializationError; after an error of the database your transaction is spoilt.
        """
        event = appended_event(self.name, data, type, extra1, extra2, extra3, extra4)
        return self._borrowed().run(log_table(self.name).append(event))

    def append_many(self, events: Iterable[object], *, type: str | None = None) -> int:
        """Append many events by COPY, all or none, in your transaction; return how many.

        Each of `events`, which may be a generator and is streamed, is a tuple `(type, data, extra1 … extra4)` of any
        length, a mapping with these names as keys, a `rowbus.Event` (its id, time and retries are not kept), or
        anything else that `append` takes as data. `type` is that of those without. A role that may not write to the
        log's tables appends by functions, a thousand at a time. Raises as `append`.
        """
        table = log_table(self.name)
        source = EventRows(events, type)
        session = self._borrowed()
        with session.transaction():
            found = session.run(table.current_table())
            if found.may_copy:
                session.copy(table.copy(found, extras=False), source.rows(found.time))
                if source.has_extras:
                    session.copy(table.copy(found, extras=True), source.rows_with_extras(found.time))
            else:
                while chunk := source.chunk(self.name):
                    session.run(table.append_batch(chunk))
        return source.count


class AsyncAppendingLog:
    """Appends through the user's asynchronous connection."""

    name: str
    _borrowed: Callable[[], Awaitable[AsyncSession]]

    async def append(
        self,
        data: object = None,
        *,
        type: str | None = None,
        extra1: str | None = None,
        extra2: str | None = None,
        extra3: str | None = None,
        extra4: str | None = None,
    ) -> int:
        """Append one event in your transaction and return its id; see `Log.append`."""
        event = appended_event(self.name, data, type, extra1, extra2, extra3, extra4)
        session = await self._borrowed()
        async with alone(session.connection):
            return await session.run(log_table(self.name).append(event))

    async def append_many(self, events: Iterable[object], *, type: str | None = None) -> int:
        """Append many events by COPY, all or none, in your transaction; return how many. See `Log.append_many`."""
        table = log_table(self.name)
        source = EventRows(events, type)
        session = await self._borrowed()
        async with alone(session.connection), session.transaction():
            found = await session.run(table.current_table())
            if found.may_copy:
                await session.copy(table.copy(found, extras=False), source.rows(found.time))
                if source.has_extras:
                    await session.copy(table.copy(found, extras=True), source.rows_with_extras(found.time))
            else:
                while chunk := source.chunk(self.name):
                    await session.run(table.append_batch(chunk))
        return source.count


class EventRows:
    """The events to append, as rows of a COPY or in chunks; counts those taken."""

    def __init__(self, events: Iterable[object], type: str | None) -> None:
        """Read each of the events as `append_many` says; `type` is that of those without.

        Raises ConfigurationError for one event, and for a data frame: who goes through that meets its columns.
        """
        kind = events.__class__
        if issubclass(kind, (str, bytes, bytearray, Mapping)) or {"columns", "shape"} <= {*dir(kind)}:
            raise ConfigurationError(
                f"append_many takes events one after the other, not a {kind.__name__}: give a list of them, or "
                "a data frame's rows, as in frame.to_dict('records')."
            )
        self._events = iter(events)
        self._type = type
        self._first: Fields | None = None
        self.count = 0

    @property
    def has_extras(self) -> bool:
        """Whether `rows` stopped at an event that has extras."""
        return self._first is not None

    def rows(self, time: bytes) -> Iterator[Row]:
        """Yield the rows of a COPY without extras, up to the first event that has some: most have none."""
        default = self._type
        for event in self._events:
            fields = _fields(event, default)
            if len(fields) > _PLAIN and any(extra is not None for extra in fields[_PLAIN:]):
                self._first = fields
                return
            self.count += 1
            yield time, fields[0], fields[1]

    def rows_with_extras(self, time: bytes) -> Iterator[Row]:
        """Yield the rows of a COPY with extras: the event that `rows` stopped at, and all that follow."""
        for fields in self._rest():
            self.count += 1
            yield time, *_padded(fields)

    def chunk(self, log: str) -> list[AppendedEvent]:
        """Return the next events, none at the end."""
        taken = [AppendedEvent(log, *fields) for fields in islice(self._rest(), CHUNK)]
        self.count += len(taken)
        return taken

    def _rest(self) -> Iterator[Fields]:
        if self._first is not None:
            yield self._first
            self._first = None
        for event in self._events:
            yield _fields(event, self._type)


def _fields(event: object, default: str | None) -> Fields:
    """Return the fields of one of `append_many`'s events, type and data at least."""
    kind = type(event)
    if kind is tuple:
        fields: tuple[object, ...] = event  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType] - `kind` says so
        if len(fields) == _PLAIN and type(fields[1]) is str and type(fields[0]) is str:
            return fields  # type: ignore[return-value]  # pyright: ignore[reportReturnType] - `type` says so
        return _filled(fields, default)
    if isinstance(event, Event):
        return _filled(event[4:], default)
    if isinstance(event, tuple):
        return _filled(cast("tuple[object, ...]", event), default)
    if isinstance(event, Mapping):
        return _filled(_named(cast("Mapping[object, object]", event)), default)
    return _filled((None, event), default)


def _named(event: Mapping[object, object]) -> tuple[object, ...]:
    if not event.keys() <= _FIELDS:
        raise ConfigurationError(
            f"An event given as a mapping has the keys type, data and extra1 to extra4, not "
            f"{', '.join(map(str, event))}; give data as (type, data), or as {{'data': …}}."
        )
    return tuple(event.get(name) for name in AppendedEvent._fields[1:])


def _filled(fields: tuple[object, ...], default: str | None) -> Fields:
    if len(fields) > _MOST:
        raise ConfigurationError(f"An event given as a tuple has at most {_MOST} fields, not {len(fields)}.")
    type, data, *extras = (*fields, None, None) if len(fields) < _PLAIN else fields
    content = event_content(data)
    type = type if type is not None else content.type if content.type is not None else default
    return (_text(type), content.data, *map(_text, extras))


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ConfigurationError(f"The type and the extras of an event are text, not {value!r}.")


def _padded(fields: Fields) -> Fields:
    return fields + (None,) * (_MOST - len(fields))
