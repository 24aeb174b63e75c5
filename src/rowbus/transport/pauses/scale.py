"""The size of an endpoint, where an operator says so: messages at a time in a process, or worker processes.

Of a type of messages: how many are in hand.

Invariant: what an operator says counts as long as it is in force, and what the program says counts afterwards.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Service
from rowbus.transport.pauses.table import ScaleKind, pauses_table, scale_of, type_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm
    from rowbus.transport.pauses.table import Pause

logger = logging.getLogger("rowbus.endpoint")

PERIOD: Final = 1.0  # seconds between two looks


class Scale:
    """One figure of an endpoint: what the program wants, and what counts now."""

    def __init__(self, kind: ScaleKind, endpoint: str, wanted: int, change: Callable[[int], None]) -> None:
        """Begin with what the program wants; `change` makes another figure count. No I/O."""
        self._kind = kind
        self._endpoint = endpoint
        self._wanted = wanted
        self._change = change
        self._said: int | None = None

    def want(self, amount: int) -> None:
        """Note that the program wants another one."""
        self._wanted = amount
        self._change(self._said or amount)

    def hear(self, found: Iterable[Pause]) -> None:
        """Note what is in force."""
        scale = scale_of(found, self._kind, self._endpoint)
        said = None if scale is None else scale.amount
        if said == self._said:
            return
        self._said = said
        what = f"Endpoint {self._endpoint}: {self._kind.value}"
        if scale is None:
            logger.info("%s %s again, as the program says.", what, self._wanted)
        else:
            logger.warning("%s %s, by an operator.", what, said)
        self._change(said or self._wanted)


class TypeLimits:
    """The number of messages of each type in an endpoint's hand, in all processes together; 0: the type is paused."""

    def __init__(self, endpoint: str, types: Callable[[], Collection[str]], *, can_wait: bool) -> None:
        """Begin with none; `types` are those handled, and `can_wait` says whether messages can wait. No I/O."""
        self._endpoint = endpoint
        self._types = types
        self._can_wait = can_wait
        self.said: dict[str, int] = {}
        """The figures in force, always in the same object."""

    def hear(self, found: Iterable[Pause]) -> None:
        """Note what is in force."""
        said, before = type_limits(found, self._endpoint), dict(self.said)
        self.said.clear()
        self.said.update(said)
        for name in sorted({*said, *before}):
            if said.get(name) != before.get(name):
                self._tell(name, said.get(name))

    def _tell(self, name: str, most: int | None) -> None:
        if most is None:
            logger.info(
                "Endpoint %s: as many %s are in hand as its program says again.", self._endpoint, name
            )
        elif name not in self._types():
            logger.warning(
                "Endpoint %s handles no %s, which an operator has limited or paused.", self._endpoint, name
            )
        elif not self._can_wait:
            logger.warning(
                "Endpoint %s does not limit or pause %s, as an operator says: its messages have nowhere to wait in "
                "transaction mode NONE, or without delayed delivery. Pause the endpoint.",
                self._endpoint,
                name,
            )
        else:
            logger.warning(
                "Endpoint %s: at most %s of %s in hand, by an operator.", self._endpoint, most, name
            )


class Scalable(Protocol):
    """Workers, as far as they are needed here."""

    count: int

    def scale(self, count: int) -> None:
        """Have so many run."""
        raise NotImplementedError


class WorkerScaling(Service):
    """Has as many worker processes run as an operator says. For one event loop."""

    def __init__(
        self, database: Database, pauses: QueueAddress, endpoint: str, workers: Scalable, alarm: Alarm
    ) -> None:
        """Look into the table `pauses` of the database. No I/O."""
        failure = f"Could not ask how many workers {endpoint} is to have"
        super().__init__(
            f"rowbus {endpoint} workers",
            ReportedBreaker(f"Asking for the workers of {endpoint}", failure, logger, alarm),
        )
        self._database = database
        self._table = pauses_table(pauses)
        self._scale = Scale(ScaleKind.WORKERS, endpoint, workers.count, workers.scale)
        self._session: AsyncSession | None = None

    async def work(self) -> None:
        """Ask, on a session of its own; then wait."""
        session = self._session = self._session or await self._database.connect()
        if await session.run(self._table.can_be_used()):
            self._scale.hear(await session.run(self._table.list()))
        self._outages.succeeded()
        await self.pause(PERIOD)

    async def release(self) -> None:
        """Close the session."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
