"""An event log of the measurement's own: appended to, and read by a consumer.

Invariant: the schema `pgq` is used where it is installed and the role may create logs; it is never installed here, and
the log is dropped in any case.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from itertools import repeat as again
from typing import TYPE_CHECKING, Final

from rowbus.bench.figures import DRIVER, ROWBUS
from rowbus.bench.measuring import Side, repeat, until_over
from rowbus.bench.place import undisturbed
from rowbus.bench.receiving import Tally
from rowbus.errors import RowbusError, StorageError
from rowbus.log import catalog
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.event import Event
from rowbus.log.log import AsyncLog, Log
from rowbus.log.schema import table as log_schema
from rowbus.log.ticker import ticks
from rowbus.messages.dispatch import AppendedEvent
from rowbus.settings import ConsumerSettings
from rowbus.transport.events import log_table

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rowbus.bench.measuring import Watch
    from rowbus.bench.place import Place
    from rowbus.database.sessions import Database, Session

CONSUMER: Final = "bench"
TYPE: Final = "order_placed"
DATA: Final = '{"order_id": "42", "total": 9.5}'
MANY: Final = 1_000
MOST: Final = 300_000
PARTS: Final = 4
"""The number of sides."""


@contextmanager
def log_of_its_own(place: Place) -> Generator[str]:
    """Create a log of the schema's name, and drop it at the end; gives why there is none, or nothing."""
    name = ""
    try:
        with undisturbed():  # an interruption must not come between the log and the note that it is there
            why = _create(place)
            name = "" if why else place.schema
        yield why
    finally:
        if name:
            with undisturbed():
                _drop(name, place.database)


def log_sides(place: Place) -> Iterator[Side]:
    """Give what is measured of the log."""
    single = "append to a log, one a transaction"
    yield Side(single, ROWBUS, partial(_appends, place))
    yield Side(single, DRIVER, partial(_driver_appends, place))
    yield Side("append to a log, many in one", ROWBUS, partial(_appends_many, place), MANY)
    yield Side("read a log by a consumer", ROWBUS, partial(_reads, place), MANY, MOST)


def _create(place: Place) -> str:
    with place.session() as session:
        return _reason_for_none(session) or _refusal(session, place.schema)


def _reason_for_none(session: Session) -> str:
    if session.run(log_schema.state()).is_ours:
        return ""
    return "the schema of the event log is not installed here, and measuring installs nothing"


def _refusal(session: Session, name: str) -> str:
    """Create the log; return why that failed, if it did."""
    try:
        with session.transaction():
            session.run(catalog.create(name))
            for setting in ("ticker_max_lag", "ticker_idle_period"):
                session.run(catalog.configure(name, setting, "0"))
    except StorageError as error:
        return str(error)
    return ""


def _drop(name: str, database: Database) -> None:
    try:
        with database.session() as session:
            session.run(catalog.drop(name, force=True))
    except RowbusError as error:
        raise StorageError(
            f"{error} The log of the measurement is left; drop it: rowbus log drop {name} --force",
            sqlstate=None,
            transient=False,
        ) from error


def _appends(place: Place, count: int, watch: Watch) -> None:
    with place.session() as session:
        log = Log(session.connection, place.schema)
        repeat(lambda: log.append(DATA, type=TYPE), count, watch)


def _driver_appends(place: Place, count: int, watch: Watch) -> None:
    append = log_table(place.schema).append(AppendedEvent(place.schema, TYPE, DATA))
    with place.session() as session:
        connection, text, parameters = session.connection, append.query.text, append.parameters
        repeat(lambda: connection.execute(text, parameters, prepare=True), count, watch)


def _appends_many(place: Place, count: int, watch: Watch) -> None:
    with place.session() as session:
        log = Log(session.connection, place.schema)
        log.append_many([(TYPE, DATA)])
        watch.start()
        watch.stop(log.append_many(until_over(again((TYPE, DATA), count), watch)))


def _reads(place: Place, count: int, watch: Watch) -> None:
    with place.session() as session:
        session.run(ConsumerTable(place.schema, CONSUMER).register())
        Log(session.connection, place.schema).append_many(again((TYPE, DATA), count + 1))
        session.run(ticks.tick(place.schema))
    asyncio.run(_consume(place, Tally(count, watch)))


async def _consume(place: Place, tally: Tally) -> None:
    log = AsyncLog(place.dsn, place.schema)
    settings = ConsumerSettings(notifications=place.is_direct, prepared_statements=place.is_direct)

    @log.consumer(CONSUMER, settings=settings)
    async def handle(_event: Event) -> None:
        tally.add()

    async with log:
        await tally.wait()
