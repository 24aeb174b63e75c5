"""Every service reports an outage that lasts to `on_critical_error`, once, and goes on when the server is back."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import psycopg
import pytest

import rowbus
from rowbus.bridges import QueueDrain
from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.endpoint.lanes import OrderedLanes
from rowbus.endpoint.long_work import LongWork
from rowbus.endpoint.publication import ContractPublisher
from rowbus.errors import ConnectionLostError
from rowbus.log.consumers.consumer import LogConsumer
from rowbus.log.consumers.event_attempts import Handling, Keys
from rowbus.log.consumers.lanes import LogLanes
from rowbus.log.consumers.life import Heartbeat
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.ticker.ticker import Maintenance, TickerService
from rowbus.messages.address import PostgresAddresses, QueueAddress
from rowbus.messages.headers import Identity
from rowbus.messages.message import MessageRow
from rowbus.platform.checks import CheckService
from rowbus.platform.heartbeats import Heartbeats
from rowbus.platform.servicecontrol import Metrics
from rowbus.running import backoff, service
from rowbus.running.critical import Alarm, ReportedBreaker, log_critical
from rowbus.settings import ConsumerSettings
from rowbus.transport.claims.claim_table import ClaimKeeper
from rowbus.transport.claims.table import claimed_values
from rowbus.transport.deduplication.postgresql import InboxTable
from rowbus.transport.deduplication.table import InboxKeeper, inbox_table
from rowbus.transport.delayed.installer import create_delayed
from rowbus.transport.delayed.mover import MoverService
from rowbus.transport.delayed.moves import Fallback
from rowbus.transport.delayed_store.poller import DelayedStorePoller
from rowbus.transport.history.teller import HistoryTeller
from rowbus.transport.limits.table import LimitKeeper, limit_table
from rowbus.transport.long_work.table import long_work_table
from rowbus.transport.pauses.scale import WorkerScaling
from rowbus.transport.pauses.table import pauses_address
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.installer import create_queue, create_table
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.delivery import Callbacks
from rowbus.transport.receiving.dispatcher import Dispatcher
from rowbus.transport.receiving.handler_watch import HandlerWatch
from rowbus.transport.receiving.preparation import ExpiredPurger
from rowbus.transport.receiving.receiver import Receiver
from rowbus.transport.recurring.schedule import Interval
from rowbus.transport.recurring.service import Recurring, RecurringService
from rowbus.transport.recurring.table import recurring_table
from rowbus.transport.requests.receiver import AnswerReceiver, PendingRequests, Sweeper
from rowbus.transport.uniqueness.table import UniqueKeeper, unique_table
from tests.conformance.transport import eventually, never

pytestmark = pytest.mark.one_version

SHORT = timedelta(milliseconds=20)
LIMIT = timedelta(milliseconds=50)
SALES, ERROR = QueueAddress("public", "Sales"), QueueAddress("public", "error")
DELAYED, INBOX = QueueAddress("public", "Sales.Delayed"), QueueAddress("public", "Sales.Inbox")
ANSWERS = QueueAddress("public", "Sales.answers-0123456789ab")
CLAIMED = QueueAddress("public", "ClaimedValues")
RUNNING = QueueAddress("public", "Sales.Running")
SCHEDULES = QueueAddress("public", "Sales.Recurring")
PAUSES = QueueAddress("public", "Rowbus.Pauses")
LIMITS = QueueAddress("public", "Sales.Limits")
UNIQUE = QueueAddress("public", "Sales.Unique")
IDENTITY = Identity("Sales", "machine", "0" * 32)
TICKER = rowbus.TickerSettings(standby_delay=SHORT, retry_delay=SHORT, maintenance_period=SHORT)


@pytest.fixture(autouse=True)
def _quick_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a failure wait 10 ms instead of 1 s, and 10 s once critical."""
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", 0.01)
    monkeypatch.setattr(backoff, "WAIT_WHEN_TRIGGERED", 0.01)


Opened = TypeVar("Opened", AsyncSession, ReceiveSession)


class Vanishing(Database):
    """A database whose server vanishes and comes back: its sessions end, and it refuses others meanwhile."""

    is_away = False

    async def connect(self) -> AsyncSession:
        self._refuse()
        return await self._unless_vanished(await super().connect())

    async def connect_receiver(self) -> ReceiveSession:
        self._refuse()
        return await self._unless_vanished(await super().connect_receiver())

    @contextmanager
    def session(self) -> Generator[Session]:
        self._refuse()
        with super().session() as session:
            self._refuse()  # the server may have vanished while it was opened, and not have seen it
            yield session

    async def vanish(self) -> None:
        self.is_away = True
        async with await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True) as connection:
            await connection.execute("""
                select pg_terminate_backend(a.pid) from pg_stat_activity as a
                where a.datname = current_database() and a.pid <> pg_backend_pid() and a.application_name = 'rowbus'
            """)

    async def _unless_vanished(self, session: Opened) -> Opened:
        """Refuse a session that was being opened when the server vanished, which did not see it yet perhaps."""
        if self.is_away:
            await session.close()
        self._refuse()
        return session

    def _refuse(self) -> None:
        if self.is_away:
            raise ConnectionLostError("the server is away", sqlstate="08006", transient=True)


class Place(NamedTuple):
    """The database, the alarm, and what ends what a service uses."""

    database: Vanishing
    alarm: Alarm
    stack: AsyncExitStack

    @property
    def settings(self) -> rowbus.EndpointSettings:
        return rowbus.EndpointSettings(
            peek_delay=timedelta(milliseconds=100), time_to_trigger_circuit_breaker=LIMIT
        )

    async def pool(self) -> Any:  # noqa: ANN401 - a pool of sessions
        pool = self.database.pool(2)
        await pool.open()
        self.stack.push_async_callback(pool.close)
        return pool


async def ignore(*_: object) -> Any:  # noqa: ANN401 - a handler, and whatever else is never called
    raise AssertionError


def poison(*_: object) -> Any:  # noqa: ANN401 - never called
    raise AssertionError


# ------------------------------------------------------------------------------------------------------- the services


async def ticker(place: Place) -> service.Service:
    return TickerService(place.database, TICKER, place.alarm)


async def maintenance(place: Place) -> service.Service:
    return Maintenance(place.database, TICKER, place.alarm)


async def mover(place: Place) -> service.Service:
    settings = rowbus.NativeDelayedDelivery(longest_look_delay=SHORT, standby_delay=SHORT)
    return MoverService(place.database, DELAYED, Fallback(None, ERROR, IDENTITY), settings, place.alarm)


async def consumer(place: Place) -> service.Service:
    handling = Handling(ignore, one_by_one=True, keys=Keys(None))
    settings = ConsumerSettings(poll_delay=SHORT)
    return LogConsumer(place.database, ConsumerTable("orders", "audit"), settings, handling, place.alarm)


async def heartbeat(place: Place) -> service.Service:
    member = ConsumerTable("orders", "audit", "one")
    session = await place.database.connect()
    await session.run(member.register(from_oldest=False))
    await session.close()
    outages = ReportedBreaker(
        "Its heartbeat", "No sign of life", logging.getLogger("rowbus.log"), place.alarm
    )
    return Heartbeat(place.database, member, 1, outages, SHORT.total_seconds())


async def drain(place: Place) -> service.Service:
    return QueueDrain(place.database, ERROR, "orders", alarm=place.alarm)


async def receiver(place: Place) -> service.Service:
    callbacks = Callbacks(ignore, ignore, poison, place.alarm.on_critical_error)
    dispatcher = Dispatcher(await place.pool(), notify=True)
    return Receiver(place.database, SALES, place.settings, callbacks, dispatcher)


async def keeper(place: Place) -> service.Service:
    pool = await place.pool()
    return InboxKeeper(
        pool, InboxTable(INBOX), timedelta(days=1), place.alarm, interval=SHORT.total_seconds()
    )


async def claims(place: Place) -> service.Service:
    return ClaimKeeper(await place.pool(), CLAIMED, place.alarm, interval=SHORT.total_seconds())


async def recurring(place: Place, every: timedelta = timedelta(milliseconds=50)) -> service.Service:
    nightly = Recurring("nightly", Interval(every), "skip", lambda _tick: [])
    clock = catalog_of(PostgresAddresses()).clock
    return RecurringService(await place.pool(), SCHEDULES, [nightly], clock, place.alarm)


async def limits(place: Place) -> service.Service:
    return LimitKeeper(await place.pool(), LIMITS, place.alarm, interval=SHORT.total_seconds())


async def unique(place: Place) -> service.Service:
    return UniqueKeeper(await place.pool(), UNIQUE, place.alarm, interval=SHORT.total_seconds())


class BusySlot:
    """A slot whose handler runs all the time."""

    called = MessageRow("1", None, "{}", b"", 1)


async def handler_watch(place: Place) -> service.Service:
    receiver: Any = SimpleNamespace(address=SALES, at_work={0: BusySlot()})
    pool, pauses = await place.pool(), pauses_address(PostgresAddresses())
    return HandlerWatch(
        "Sales", lambda: [receiver], lambda _: [], pool=pool, pauses=pauses, alarm=place.alarm
    )


async def worker_scaling(place: Place) -> service.Service:
    workers: Any = SimpleNamespace(count=2, scale=lambda _: None)
    return WorkerScaling(place.database, PAUSES, "Sales", workers, place.alarm)


async def ordered_lanes(place: Place) -> service.Service:
    return OrderedLanes(place.database, SALES, [], poison, place.alarm)


async def answers(place: Place) -> service.Service:
    return AnswerReceiver(place.database, ANSWERS, PendingRequests((), await place.pool()), place.alarm)


async def sweeper(place: Place) -> service.Service:
    return Sweeper(place.database, ANSWERS, place.alarm, period=SHORT.total_seconds())


async def purger(place: Place) -> service.Service:
    pool = await place.pool()
    return ExpiredPurger(pool, [queue_table(SALES)], place.alarm, period=SHORT, batch_size=100)


async def long_work(place: Place) -> service.Service:
    settings = rowbus.EndpointSettings(time_to_trigger_circuit_breaker=LIMIT)
    sales = rowbus.Endpoint("Sales", settings=settings, on_critical_error=place.alarm.on_critical_error)

    @sales.handler("Shop.Report", long=True)
    async def report(message: dict[str, object]) -> None: ...

    nobody: Any = None  # there is no message
    return LongWork(place.database, await place.pool(), sales.parts, nobody, nobody, inbox=None)


Make: TypeAlias = Callable[[Place], Awaitable[service.Service]]
SERVICES: dict[str, tuple[Make, str]] = {
    "OrderedLanes": (ordered_lanes, "Could not ask who works on the lanes of"),
    "TickerService": (ticker, "Ticking the logs of"),
    "Maintenance": (maintenance, "Maintenance of the logs failed"),
    "MoverService": (mover, "Failed to move matured delayed messages to input queue"),
    "LogConsumer": (consumer, "orders/audit failed"),
    "Heartbeat": (heartbeat, "No sign of life"),
    "QueueDrain": (drain, 'Draining "public"."error" failed'),
    "Receiver": (receiver, 'Failed to peek "public"."Sales"'),
    "InboxKeeper": (keeper, 'Could not forget old messages of "public"."Sales.Inbox"'),
    "ClaimKeeper": (claims, 'Could not forget old claimed values of "public"."ClaimedValues"'),
    "RecurringService": (recurring, 'Could not send recurring messages of "public"."Sales.Recurring"'),
    "LimitKeeper": (limits, 'Could not forget idle keys of "public"."Sales.Limits"'),
    "UniqueKeeper": (unique, 'Could not forget free values of "public"."Sales.Unique"'),
    "HandlerWatch": (handler_watch, "Could not look for cancelled messages of Sales"),
    "WorkerScaling": (worker_scaling, "Could not ask how many workers Sales is to have"),
    "LongWork": (long_work, 'Could not look after running work of "public"."Sales.Running"'),
    "AnswerReceiver": (answers, f"Failed to receive answers from {ANSWERS}"),
    "Sweeper": (sweeper, "Could not remove the queues of askers that are gone"),
    "ExpiredPurger": (purger, "Could not purge expired messages"),
}
ELSEWHERE = {
    DelayedStorePoller.__name__,  # tests/transport/delayed_store/test_failures.py
    CheckService.__name__,  # these three report to the platform: without it no message stops, and nothing is critical
    Heartbeats.__name__,  # (tests/platform/test_endpoint.py)
    Metrics.__name__,
    ContractPublisher.__name__,  # nor without a contract: tests/endpoint/test_publication.py
    HistoryTeller.__name__,  # nor does one without the history: tests/web/test_history.py
    LogLanes.__name__,  # its loop is that of OrderedLanes
}


# ------------------------------------------------------------------------------------------------------------ the test


@pytest.fixture
async def place(log_database: str, heard: list[str]) -> AsyncIterator[Place]:
    database = Vanishing(log_database)
    session = await database.connect()
    for address in (SALES, ERROR):
        await create_queue(session, address)
    await create_delayed(session, DELAYED)
    for table in (
        inbox_table(INBOX),
        recurring_table(SCHEDULES),
        claimed_values(CLAIMED),
        limit_table(LIMITS),
        unique_table(UNIQUE),
        long_work_table(RUNNING),
    ):
        await create_table(session, table, "the table")
    await session.connection.execute("select pgq.create_queue('orders')")
    await session.close()
    alarm = Alarm(lambda text, _error: heard.append(text), LIMIT)
    async with AsyncExitStack() as stack:
        yield Place(database, alarm, stack)


@pytest.fixture
def heard() -> list[str]:
    """Give the list of the critical errors."""
    return []


@pytest.mark.parametrize("name", SERVICES)
async def test_a_long_outage_of_a_service_is_a_critical_error_once_and_then_it_goes_on(
    name: str, place: Place, heard: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowbus")
    make, failure = SERVICES[name]

    def reported() -> int:
        return sum(text.startswith(failure) for text in heard)

    running = await make(place)
    assert type(running).__name__ == name
    await running.start()
    for outage in (1, 2):
        await place.database.vanish()
        await eventually(lambda outage=outage: reported() == outage)
        await never(lambda outage=outage: reported() != outage, 0.1)  # type: ignore[misc]  # an argument's default
        assert sum(each.getMessage().startswith(f"{failure}") for each in caplog.records) == 1
        caplog.clear()
        place.database.is_away = False
        await eventually(lambda: "works again" in caplog.text)
    await running.stop()


def test_a_server_that_stays_away_is_told_of_in_one_line_and_another_error_with_its_calls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = log_critical(logging.getLogger("rowbus.endpoint"))
    log("Failed to peek Sales", ConnectionLostError("the server is away", sqlstate="08006", transient=True))
    log("Failed to peek Sales", ValueError("a fault of ours"))
    away, other = caplog.records
    assert away.getMessage() == "Failed to peek Sales, and goes on failing: the server is away"
    assert away.exc_info is None
    assert other.exc_info is not None


@pytest.mark.parametrize("make", [answers, partial(recurring, every=timedelta(days=1))])
async def test_a_service_with_nothing_to_do_looks_seldom(
    make: Make, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    running = await make(place)
    look = running.work

    async def noted() -> None:
        looks.append(True)
        await look()

    monkeypatch.setattr(running, "work", noted)
    await running.start()
    await eventually(lambda: bool(looks))
    await never(lambda: len(looks) > 5, 0.1)
    await running.stop()


def test_every_service_is_among_them() -> None:
    assert set(concrete(service.Service)) == {*SERVICES, *ELSEWHERE}


def concrete(base: Any) -> list[str]:  # noqa: ANN401 - an abstract class
    """Name the classes of Rowbus that are built upon a base and are not bases themselves."""
    found = [base] if base.__module__.startswith("rowbus.") and not base.__abstractmethods__ else []
    return [kind.__name__ for kind in found] + [
        name for child in base.__subclasses__() for name in concrete(child)
    ]
