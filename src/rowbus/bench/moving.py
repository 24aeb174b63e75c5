"""Moving delayed messages that are due to their queue, beside one statement a batch by hand.

Invariant: both move what is due in the order of its time.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.bench import statements
from rowbus.bench.figures import DRIVER, ROWBUS
from rowbus.bench.measuring import Side
from rowbus.bench.messages import BODY, headers_for
from rowbus.bench.sending import delayed_address
from rowbus.transport.composition import identity_of
from rowbus.transport.delayed.mover import open_session
from rowbus.transport.delayed.moves import DueMoves, Fallback
from rowbus.transport.delayed.table import delayed_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.bench.measuring import Watch
    from rowbus.bench.place import Place

BATCH: Final = 100
MOST: Final = 300_000


def moving_sides(place: Place) -> Iterator[Side]:
    """Give the two sides."""
    name = f"delayed move, batches of {BATCH}"
    yield Side(name, ROWBUS, partial(_mover_moves, place), 5 * BATCH, MOST)
    yield Side(name, DRIVER, partial(_driver_moves, place), 5 * BATCH, MOST)


def _fill(place: Place, messages: int) -> None:
    table = delayed_address(place)
    with place.session() as session:
        session.run(statements.truncate(place.queue))
        session.run(statements.truncate(table))
        session.run(statements.fill_delayed(table, messages, headers_for(place.queue), BODY))
        session.run(statements.vacuum(table))


def _mover_moves(place: Place, count: int, watch: Watch) -> None:
    _fill(place, count + BATCH)
    asyncio.run(_move(place, count, watch))


async def _move(place: Place, count: int, watch: Watch) -> None:
    table = delayed_table(delayed_address(place))
    moves = DueMoves(table, Fallback(None, place.address("error"), identity_of(None, None, None)), BATCH)
    session = await open_session(place.database, table, configured=place.is_direct)
    try:
        await moves.move(session)
        watch.start()
        done = 0
        while done < count and not watch.is_over:
            done += await moves.move(session)
        watch.stop(done)
    finally:
        await session.close()


def _driver_moves(place: Place, count: int, watch: Watch) -> None:
    _fill(place, count + BATCH)
    statement = statements.move_due(delayed_address(place), place.queue, BATCH)
    text, parameters = statement.query.text, statement.parameters
    with place.session() as session:
        session.connection.execute(text, parameters, prepare=True)
        watch.start()
        done = 0
        while done < count and not watch.is_over:
            done += session.connection.execute(text, parameters, prepare=True).rowcount
        watch.stop(done)
