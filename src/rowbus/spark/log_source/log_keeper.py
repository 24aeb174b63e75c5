"""Registrations of a stream's consumer: lock it, register it, and move it up behind the durable offsets.

Invariant: the registration never passes what Spark has made durable. One live query per consumer: its session holds
the consumer's lock, and loses it with its process.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from rowbus.database.locks.holder import describe
from rowbus.errors import ConsumerBusyError
from rowbus.spark.log_source.hold import LogHold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Statement
    from rowbus.spark.log_source.control import Control
    from rowbus.spark.log_source.hold import HoldState
    from rowbus.spark.log_source.offset import LogOffset

T = TypeVar("T")

logger = logging.getLogger("rowbus.spark")


class Run(Protocol):
    """A function that runs a statement."""

    def __call__(self, statement: Statement[T], /) -> T:
        """Run the statement and return its result."""
        ...


PAUSE = 0.05  # seconds between two looks at a lock


class LogKeeper:
    """A consumer's registrations with the logs of one stream."""

    def __init__(self, control: Control, consumer: str, lock_timeout: float) -> None:
        """Use the session of the stream's driver side; the timeout is in seconds. No I/O."""
        self._control = control
        self._consumer = consumer
        self._lock_timeout = lock_timeout
        self._locked: list[str] = []
        self._held: dict[str, int] = {}
        control.on_connect = self._lock_again

    def lock(self, log: str) -> None:
        """Lock the consumer; raises ConsumerBusyError, which names the holder of the lock."""
        if log not in self._locked:
            self._take(self._control.run, log)
            self._locked.append(log)

    def state(self, log: str) -> HoldState | None:
        """Return the registration; raises ConsumerBusyError when a consumer outside Spark uses it."""
        state = self._control.run(LogHold(log, self._consumer).find_hold())
        if state is not None and (state.batch is not None or state.members):
            use = f"has batch {state.batch} open" if state.members == 0 else "is a cooperative consumer"
            raise self._busy(
                log,
                f"{self._consumer} {use}: it also consumes outside Spark. Give the stream a name of its own, or "
                f"take the batch away with `rowbus log seek {log} {self._consumer} …`.",
            )
        return state

    def owner(self, log: str) -> int | None:
        """Return the number that events retried for this consumer carry."""
        state = self._control.run(LogHold(log, self._consumer).find_hold())
        return None if state is None else state.owner

    def place(self, log: str, tick: int) -> None:
        """Retain events from a tick on, before or after the present position."""
        self._control.run(LogHold(log, self._consumer).place_hold(tick))
        self._held[log] = tick

    def release(self, offsets: Mapping[str, LogOffset]) -> None:
        """Release events before the ticks of durable offsets."""
        for log, offset in offsets.items():
            if self._held.get(log, -1) < offset.at.tick:
                hold = LogHold(log, self._consumer)
                self._control.run_last(hold.lock_hold(), hold.move_up_hold(offset.at.tick))
                self._held[log] = offset.at.tick

    def _lock_again(self, session: Session) -> None:
        for log in self._locked:
            self._take(session.run, log)

    def _take(self, run: Run, log: str) -> None:
        hold = LogHold(log, self._consumer)
        deadline = time.monotonic() + self._lock_timeout
        while not run(hold.try_lock()):
            if time.monotonic() > deadline:
                raise self._busy(
                    log,
                    f"Another query reads log {log} as {self._consumer}: {describe(run(hold.holders()))}. "
                    "Only one may; stop it, or give this one another consumer name.",
                )
            time.sleep(PAUSE)

    def _busy(self, log: str, message: str) -> ConsumerBusyError:
        return ConsumerBusyError(message, log=log, consumer=self._consumer)
