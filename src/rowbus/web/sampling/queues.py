"""Looks at queues: which there are, how deep they are, how fast they fill and empty.

A queue is counted up to `MOST_COUNTED` messages, by its index; beyond that the server's estimate is shown. One whose
counters stand still is not read again while it is empty, and otherwise each `STILL_PERIOD`, for what is in hand, of
many such queues `STILL_READS` a look: 200 idle queues cost one statement, and 200 that stand still with messages
eleven.

Invariant: a queue that this role may not read, that is a stranger's, or that is locked or dropped meanwhile, does not
hide the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rowbus.errors import QueueNotFoundError
from rowbus.messages.reading import read_headers, time_sent
from rowbus.transport.queues.catalog.finding import find_queues
from rowbus.transport.queues.catalog.looking import NotLookedAtError, look
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.web.sampling.pacing import Pace
from rowbus.web.sampling.snapshot import QueueFigures
from rowbus.web.sampling.statistics import Counters, counters

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.queues.shape import QueueShape

MOST_COUNTED: Final = 1_001
CATALOGUE_PERIOD: Final = 30.0  # seconds between two looks for queues that are new
STILL_PERIOD: Final = 30.0  # seconds between two looks into a queue that nothing enters or leaves, at least
STILL_READS: Final = 10  # such queues that one look reads, at most


class QueueLook:
    """The queues, from one look to the next."""

    def __init__(self, addresses: Addresses, *, has_statistics: bool) -> None:
        """Take how names become addresses, and whether the server counts as PostgreSQL does. No I/O."""
        self._catalog = catalog_of(addresses)
        self._has_statistics = has_statistics
        self._shapes: list[QueueShape] = []
        self._counted: dict[QueueAddress, Counters] = {}
        self._counted_at = 0.0
        self._known: dict[QueueAddress, QueueFigures] = {}
        self._read_at: dict[QueueAddress, float] = {}
        self.catalogue = Pace(CATALOGUE_PERIOD)

    def take(self, session: Session, now: float) -> tuple[QueueFigures, ...]:
        """Look at all queues; `now` is in seconds of a clock that only goes forward."""
        if self.catalogue.is_due(now):
            self._shapes = [shape for shape in find_queues(session, self._catalog) if shape.is_queue]
            self.catalogue.took(0, now)
        counted = self._count(session)
        fitting = self._still_fitting(now)
        found = {
            shape.address: self._figures(
                session, shape, counted.get(shape.address), now, still_fits=shape.address in fitting
            )
            for shape in self._shapes
        }
        self._known, self._counted, self._counted_at = found, counted, now
        return tuple(found.values())

    @property
    def addresses(self) -> list[QueueAddress]:
        """The queues of the last look."""
        return list(self._known)

    def hasten(self) -> None:
        """Look at everything the next time: something was changed."""
        self.catalogue.hasten()
        self._read_at.clear()

    def _count(self, session: Session) -> dict[QueueAddress, Counters]:
        if not self._has_statistics:
            return {}
        return session.run(counters(shape.address for shape in self._shapes))

    def _figures(
        self,
        session: Session,
        shape: QueueShape,
        counted: Counters | None,
        now: float,
        *,
        still_fits: bool,
    ) -> QueueFigures:
        if counted is None:
            figures = QueueFigures(shape, may_change=shape.readable, left_out=shape.left_out)
            return self._read(session, figures, None)
        before, elapsed = self._counted.get(shape.address), now - self._counted_at
        figures = QueueFigures(
            shape,
            rate_in=_rate(counted.inserted, before and before.inserted, elapsed),
            rate_out=_rate(counted.deleted, before and before.deleted, elapsed),
            may_change=counted.may_delete and not shape.left_out,
            left_out=shape.left_out,
        )
        known = self._known.get(shape.address) if before == counted else None
        if known is not None and still_fits and known.left_out == shape.left_out:
            return replace(
                figures,
                depth=known.depth,
                is_exact=known.is_exact,
                in_hand=known.in_hand,
                oldest_sent=known.oldest_sent,
            )
        self._read_at[shape.address] = now
        return self._read(session, figures, counted.live)

    def _still_fitting(self, now: float) -> set[QueueAddress]:
        """Return the queues of which what was read still fits, if nothing entered or left them since.

        That is all that were empty, and all others but those whose turn it is: the ones that were read longest ago.
        """
        read_at = self._read_at
        empty = {address for address, known in self._known.items() if known.depth == 0}
        full = [address for address in self._known if address in read_at and address not in empty]
        full.sort(key=lambda address: read_at[address])
        turns = {address for address in full[:STILL_READS] if now - read_at[address] >= STILL_PERIOD}
        return empty.union(full) - turns

    def _read(self, session: Session, figures: QueueFigures, estimate: int | None) -> QueueFigures:
        if not figures.shape.readable:
            return replace(figures, depth=estimate, is_exact=False)
        try:
            asked = self._catalog.queue_state(figures.address, MOST_COUNTED)
            state = look(session, figures.address, asked)
        except NotLookedAtError as error:
            return replace(figures, left_out=error.reason)
        except QueueNotFoundError:
            self.catalogue.hasten()
            return figures
        is_exact = state.depth < MOST_COUNTED
        return replace(
            figures,
            depth=state.depth if is_exact else max(estimate or 0, MOST_COUNTED - 1),
            is_exact=is_exact,
            in_hand=state.in_hand,
            oldest_sent=None
            if state.oldest_headers is None
            else time_sent(read_headers(state.oldest_headers)),
        )


def _rate(now: int, before: int | None, elapsed: float) -> float | None:
    """Return how many a second; None at the first look, and after the statistics were reset."""
    if before is None or now < before or elapsed <= 0:
        return None
    return (now - before) / elapsed
