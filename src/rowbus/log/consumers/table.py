"""A consumer of a log: its registration, its batches, what failed, and its position.

Statements on schema `pgq`, which `rowbus log install` makes; stock PgQ consumers may share it.

Invariant: a batch is finished, or noted as done up to an event, only by who holds it: the statements that say so raise
BatchError otherwise, before anything is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.locks import consumer_lock, members_lock, workers_lock
from rowbus.database.postgresql.locks import lock_holders
from rowbus.database.statements import Query, Statement, load, no_rows, scalar
from rowbus.errors import BatchError, ConfigurationError, ConsumerNotFoundError, LogNotFoundError
from rowbus.log.consumers.policy import DeadLetter, Defer, Note, RetryAfter
from rowbus.log.event import Batch, DeadEvent, Event
from rowbus.log.queries import FOLDER, log_query
from rowbus.messages.address import refuse_nul

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rowbus.database.locks import LockHolder
    from rowbus.database.statements import Decode, Rows, Steps, T
    from rowbus.log.consumers.policy import Verdict
    from rowbus.settings import ConsumerSettings


_AWAY: Final = (
    (RetryAfter, "retries/retry", "Could not retry events for", "seconds"),
    (Defer, "retries/defer", "Could not defer events for", "seconds"),
    (DeadLetter, "retries/dead_letter", "Could not put events aside for", "reasons"),
)
"""Of each verdict its statement, and what that calls the verdict's value."""

NOT_YET: Final = "; it is registered when it first starts, and `rowbus log consumers` lists those there are."


class Mark(NamedTuple):
    """The progress of one part of `parts` in a batch: its events up to `event` are done."""

    parts: int
    part: int
    event: int


class TakenBatch(NamedTuple):
    """A batch that was taken, and how far its parts had come before."""

    batch: Batch
    marks: list[Mark]
    notes: list[Note]
    """Work that was begun after the marks."""

    was_open: bool
    """Whether it was in hand before: work on it was interrupted."""


class ConsumerTable:
    """Statements of one consumer of one log, or of one of its subconsumers.

    Each runs in its runner's transaction.
    """

    def __init__(self, log: str, consumer: str, subconsumer: str | None = None) -> None:
        """Bind the SQL files to names; ConfigurationError if one holds NUL. No I/O."""
        for kind, name in (("log", log), ("consumer", consumer), ("subconsumer", subconsumer or "")):
            refuse_nul(kind, name)
        self.log = log
        self.consumer = consumer
        self.own_name = consumer
        """The name that its handler was given; a lane has one of its own beside."""
        self.lane = ""
        """The name of the lane, if it is one."""
        self.registered_with = frozenset({consumer})
        """The names under which the consumer is registered, if it is."""
        self.subconsumer = subconsumer
        self.name = f"{log}/{consumer}" if subconsumer is None else f"{log}/{consumer}.{subconsumer}"
        self._names = {"log": log, "consumer": consumer, "subconsumer": subconsumer or ""}
        self._lock_name = consumer_lock(log, consumer, subconsumer or "")
        self._workers_lock = workers_lock(log, consumer, subconsumer or "")
        self._members_lock = members_lock(log, consumer)
        folder = "batches" if subconsumer is None else "coop"
        self._next_batch = self._load(f"{folder}/next_batch", "Could not take a batch for")
        self._finish_batch = self._load(f"{folder}/finish_batch", "Could not finish a batch of")
        self._open_batch = self._load("batches/open_batch", "Could not read a batch for")
        self._hold_batch = self._load("batches/hold_batch", "Could not look for a batch of")
        self._mark_batch = self._load("batches/mark_batch", "Could not note the position of")

    def _load(self, operation: str, failing: str, *, prepare: bool = True) -> Query:
        return log_query(operation, f"{failing} {self.name}", log=self.log, prepare=prepare)

    def _once(self, operation: str, failing: str, decode: Decode[T], **parameters: object) -> Statement[T]:
        query = self._load(operation, failing, prepare=False)
        return Statement(query, {**self._names, **parameters}, decode)

    # --- registration

    def register(self, *, from_oldest: bool = False) -> Statement[bool]:
        """Register the consumer (or the subconsumer) unless it is registered; says whether it was registered now.

        A new consumer is given what commits from now on, or with `from_oldest` what is retained; a subconsumer of a new
        one what commits from now on. Another process that registers it at the same time may make this fail. Raises
        LogNotFoundError.
        """
        if self.subconsumer is None:
            return self._once(
                "consumers/register", "Could not register", self._registered, from_oldest=from_oldest
            )
        return self._once("coop/register", "Could not register", self._registered)

    def names(self) -> Statement[list[str]]:
        """Ask under which names the consumer is registered: its own, or those of its lanes; raises LogNotFoundError."""
        query = self._load("consumers/names", "Could not look for the lanes of", prepare=False)
        return Statement(query, {"log": self.log, "consumer": self.own_name}, self._own_names)

    def _own_names(self, rows: Rows, _count: int) -> list[str]:
        if not rows:
            raise log_not_found(self.log)
        return [name for (name,) in rows if name is not None]

    def refuse_others(self, names: Iterable[str]) -> None:
        """Raise ConfigurationError where the consumer is registered with other lanes, or without."""
        lanes = (name for name in names if name == self.own_name or name[len(self.own_name) + 1 :].isdigit())
        found = frozenset(lanes)
        if found and found != self.registered_with:
            raise ConfigurationError(
                f"Consumer {self.own_name} of log {self.log} is registered as {', '.join(sorted(found))}, and now "
                f"asks for {', '.join(sorted(self.registered_with))}: events would come twice, or never. Have it do "
                "all that waits while nothing ticks the log, stop it, and type `rowbus log lanes "
                f"{self.log} {self.own_name} {len(self.registered_with)}`."
            )

    def main_consumer(self) -> Statement[str | None]:
        """Ask of which consumer it is a subconsumer; None: of none."""
        return self._once(
            "coop/main_consumer", "Could not look for", lambda rows, _: rows[0][0] if rows else None
        )

    def find(self) -> Steps[None]:
        """Raise ConsumerNotFoundError, which names its lanes if it has some, or LogNotFoundError."""
        names: list[str] = yield self.names()
        if self.consumer not in names:
            lanes = f", but its lanes, each by itself: {', '.join(sorted(names))}." if names else NOT_YET
            raise ConsumerNotFoundError(
                f'Log "{self.log}" has no consumer "{self.consumer}"{lanes}',
                log=self.log,
                consumer=self.consumer,
            )

    def unregister(self) -> Steps[bool]:
        """Remove the consumer with its retry queue, or a subconsumer, whose batch goes to the others; was there one?"""
        main: str | None = yield self.main_consumer()
        folder, names = "consumers", {}
        if main is not None:
            folder, names = "coop", {"main": main, "subconsumer": self.consumer[len(main) + 1 :]}
        removed: bool = yield self._once(
            f"{folder}/unregister", "Could not unregister", lambda rows, _: rows[0][0] > 0, **names
        )
        return removed

    def try_lead(self) -> Statement[bool]:
        """Become the one process of this name while the session lasts; says whether that was possible."""
        return self._once(
            "consumers/try_lead", "Could not look for other processes of", scalar, lock_name=self._lock_name
        )

    def leaders(self) -> Statement[list[LockHolder]]:
        """Ask who is that process, if it is another."""
        return lock_holders(self._lock_name)

    def alive(self) -> Statement[bool]:
        """Give a sign of life of the process that leads; true when its session lives."""
        return self._once("consumers/alive", "Could not give a sign of life for", scalar)

    def limit_silence(self, seconds: float) -> Statement[None]:
        """Have the server end the session when it has been silent for so long."""
        return self._once(
            "consumers/limit_silence",
            "Could not prepare a session for",
            no_rows,
            silence=round(seconds * 1000),
        )

    def show_worker(self) -> Statement[bool]:
        """Show that the session is a worker's of the process that leads."""
        folder, locks = "consumers", {"lock_name": self._workers_lock}
        if self.subconsumer is not None:
            folder, locks = "coop", {**locks, "members_lock": self._members_lock}
        return self._once(f"{folder}/show_worker", "Could not prepare a session for", scalar, **locks)

    def end_workers(self) -> Statement[int]:
        """End the workers' sessions that a former leader has left; answers how many. Waits 5 s for each at most."""
        return self._once(
            "consumers/end_workers", "Could not take over from", scalar, lock_name=self._workers_lock
        )

    def end_lost_workers(self) -> Statement[int]:
        """End the workers' sessions of members that lost their batches; answers how many. Waits as `end_workers`."""
        return self._once(
            "coop/end_lost_workers",
            "Could not take a batch over for",
            scalar,
            members_lock=self._members_lock,
        )

    def _registered(self, rows: Rows, _count: int) -> bool:
        if not rows:
            raise log_not_found(self.log)
        return bool(rows[0][0])

    # --- batches

    def next_batch(self, settings: ConsumerSettings) -> Statement[TakenBatch | None]:
        """Take the next batch, or the one in hand; None when there is nothing to take. To be committed at once."""
        parameters = {
            "min_lag": settings.min_lag,
            "min_count": settings.min_count,
            "min_interval": settings.min_interval,
            "dead_after": settings.dead_after,
        }
        return Statement(self._next_batch, {**self._names, **parameters}, _taken_batch)

    def open_batch(self, batch: int, after: int | None) -> Statement[None]:
        """Begin to read a batch's events, those after an event or all, in a transaction that must last."""
        return Statement(self._open_batch, {"batch": batch, "after": after}, no_rows)

    def fetch_batch(self, size: int) -> Statement[list[Event]]:
        """Read on in the batch that was opened."""
        query = load(
            f"{FOLDER}/batches/fetch_batch.sql",
            literals={"chunk_size": size},
            failing=f"Could not read a batch for {self.name}",
            prepare=False,  # what a FETCH returns depends on the cursor
        )
        return Statement(query, {}, events)

    def hold_batch(self, batch: int) -> Statement[None]:
        """Check that a batch is still in hand; raises BatchError."""
        return Statement(self._hold_batch, {"batch": batch}, self._held(batch))

    def mark_batch(self, batch: int, mark: Mark, previous: int | None) -> Statement[None]:
        """Note how far a part has come, in the transaction of its work; raises BatchError if others were at it."""
        parameters = {"batch": batch, **mark._asdict(), "previous": previous}
        return Statement(self._mark_batch, parameters, self._held(batch))

    def note_attempt(self, batch: int, note: Note, previous: int | None) -> Statement[None]:
        """Note that a part begins with events that may have broken what handled them; to be committed at once.

        Without a mark (`previous` is None) one before all events is made. Raises BatchError if others were at it.
        """
        return self._once(
            "batches/note_attempt",
            "Could not note an attempt of",
            self._held(batch),
            batch=batch,
            parts=note.parts,
            part=note.part,
            previous=previous,
            tried=note.upto,
            losses=note.losses,
        )

    def finish_batch(self, batch: int, marks: Mapping[tuple[int, int], int]) -> Statement[None]:
        """Move the position to the batch's end; `marks` are the events of its parts.

        Raises BatchError when the batch is not in hand any more, or has other marks: another process has done a part.
        """
        parts, part = [parts for parts, _ in marks], [part for _, part in marks]
        given = {"batch": batch, "parts": parts, "part": part, "events": list(marks.values())}
        return Statement(self._finish_batch, {**self._names, **given}, self._held(batch))

    def touch(self) -> Statement[bool]:
        """Give a sign of life for a subconsumer; says whether it is still registered."""
        return self._once("coop/touch", "Could not give a sign of life for", lambda rows, _: rows[0][0] == 1)

    def _held(self, batch: int) -> Decode[None]:
        def check(rows: Rows, _count: int) -> None:
            if not rows[0][0]:
                raise self._lost(batch)

        return check

    def _lost(self, batch: int) -> BatchError:
        return BatchError(
            f"Batch {batch} of {self.name} is not in hand any more: it was finished or taken over by another process, "
            f"or the consumer was moved. What was done for it is rolled back.",
            log=self.log,
            consumer=self.consumer,
            batch=batch,
        )

    # --- what failed

    def put_away(self, batch: int, verdicts: Sequence[tuple[Event, Verdict]]) -> Iterator[Statement[None]]:
        """Have events delivered again, or put them aside as dead letters.

        Those retried have a retry counted; those deferred none, and come in this order, after those being retried.
        """
        for kind, operation, failing, column in _AWAY:
            meant = [(event, *verdict) for event, verdict in verdicts if type(verdict) is kind]
            if meant:
                given = {column: [value for _, value in meant], "txids": [event.txid for event, _ in meant]}
                ids = [event.id for event, _ in meant]
                yield self._once(operation, failing, no_rows, batch=batch, events=ids, **given)

    def waiting_retries(self) -> Statement[list[tuple[int, Event]]]:
        """List what waits to be delivered again: the seconds until it is due (0 or less: overdue), and the event."""
        return self._once("retries/waiting_retries", "Could not look into the retry queue of", _waiting)

    def dead_letters(self, most: int, after: int = 0) -> Statement[list[DeadEvent]]:
        """List dead letters, the oldest first, behind one of them."""
        failing = "Could not list the dead letters of"
        return self._once("retries/dead_letters", failing, _dead, most=most, after=after)

    def replay(self, ids: Sequence[int] | None) -> Statement[int]:
        """Have dead letters delivered again, all or those given; answers how many."""
        return self._once("retries/replay", "Could not replay dead letters of", scalar, ids=ids)

    def purge(self, before: datetime | None) -> Statement[int]:
        """Delete dead letters, all or those from before a time; answers how many."""
        return self._once("retries/purge", "Could not purge dead letters of", scalar, before=before)

    def discard(self, ids: Sequence[int]) -> Statement[int]:
        """Delete dead letters, those given; answers how many."""
        return self._once("retries/discard", "Could not discard dead letters of", scalar, ids=ids)

    # --- position

    def move(self, tick: int) -> Steps[None]:
        """Move the consumer as `seek`; raises ConsumerNotFoundError, and ConfigurationError for a subconsumer.

        Its batch would be no one's: the consumer is behind it already.
        """
        yield from self.find()
        if main := (yield self.main_consumer()):
            raise ConfigurationError(
                f"{self.consumer} is a member of {main}, which has the position of all members: move {main}."
            )
        yield self.seek(tick)

    def seek(self, tick: int) -> Statement[bool]:
        """Move the consumer to a tick; says whether it is registered. A batch in hand is taken from it."""
        return self._once("consumers/seek", "Could not move", lambda rows, _: bool(rows), tick=tick)

    def position(self) -> Statement[int | None]:
        """Ask for the last finished tick; None when the consumer is not registered."""
        return self._once(
            "consumers/position", "Could not look for", lambda rows, _: rows[0][0] if rows else None
        )


def events(rows: Rows, _count: int) -> list[Event]:
    """Decode events; the columns are in the order of the fields."""
    return list(map(Event._make, rows))


def log_not_found(log: str) -> LogNotFoundError:
    """Return the error for a log that does not exist."""
    return LogNotFoundError(f'There is no log "{log}"; create it with `rowbus log create`.', log=log)


def _taken_batch(rows: Rows, _count: int) -> TakenBatch | None:
    if not rows:
        return None
    *batch, parts, part, marked, tried, losses, was_open = rows[0]
    marks, notes = list[Mark](), list[Note]()
    for row in zip(parts or (), part or (), marked or (), tried or (), losses or (), strict=True):
        marks.append(Mark(*row[:3]))
        if row[3] is not None:
            notes.append(Note(row[0], row[1], row[3], row[4]))
    return TakenBatch(Batch(*batch), marks, notes, was_open)


def _waiting(rows: Rows, _count: int) -> list[tuple[int, Event]]:
    return [(seconds, Event(*event)) for seconds, *event in rows]


def _dead(rows: Rows, _count: int) -> list[DeadEvent]:
    return [DeadEvent(number, time, reason, Event(*event)) for number, time, reason, *event in rows]
