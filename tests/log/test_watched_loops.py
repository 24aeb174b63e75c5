"""Every loop is watched: whichever ends unasked is reported, shown in all places, and works again."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

import rowbus
from rowbus.database.postgresql.database import LONGEST_NAME, Database, marked
from rowbus.log.examination import examine
from rowbus.messages.address import PostgresAddresses
from rowbus.running.bounded import Bounded
from rowbus.running.service import Stoppable
from rowbus.running.telemetry import process
from rowbus.running.telemetry.beside import _Program
from rowbus.running.telemetry.listener import Address
from rowbus.running.telemetry.service import MeasuredService, ToldWorkers
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import Level
from tests.conformance.transport import eventually
from tests.log.orders import Orders

if TYPE_CHECKING:
    from rowbus.transport.queues.diagnosis import Finding

pytestmark = pytest.mark.one_version

KINDS: Mapping[str, str] = {
    'rowbus "public"."Sales" slot 0': "Receiving from",
    'rowbus "public"."Sales" pump': "Peeking",
    'rowbus "public"."Sales.Delayed" mover': "Moving delayed messages",
    'rowbus "public"."Sales.Recurring" service': "Sending recurring messages",
    "rowbus lookout": "Peeking",
    "rowbus ticker": "Ticking",
    "rowbus maintenance": "Maintenance of the logs",
    "rowbus orders/audit": "orders/audit",
}
"""The loops, and what fails when they end, as it is called."""


@pytest.fixture(autouse=True)
def _nothing_is_told_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "ENDED", Bounded())


class Company:
    """One of each service of a process, and what was told of them."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.critical: list[str] = []
        self.endpoint = rowbus.Endpoint("Sales", database=dsn, on_critical_error=self._note)
        self.endpoint.handler("Shop.Place")(_place)
        self.endpoint.every(timedelta(hours=1), name="hourly")(_hourly)
        log = rowbus.Log(dsn, "orders", on_critical_error=self._note)
        log.consumer("audit")(_audit)
        ticker = rowbus.Ticker(dsn, on_critical_error=self._note)
        self.told = MeasuredService(_Program())
        self.services: list[Stoppable] = [ticker, log, self.endpoint, self.told]

    def _note(self, text: str, _error: BaseException) -> None:
        self.critical.append(text)

    async def is_ready(self) -> bool:
        return (await self.told.ready()).status == 200

    async def is_not_ready(self) -> bool:
        return not await self.is_ready()

    def findings(self) -> list[Finding]:
        with Database(self.dsn).session() as session:
            return list(examine(session, catalog_of(PostgresAddresses("public")), 10))

    async def says(self, loop: str) -> None:
        """Fail unless the loop's end is shown wherever operators look."""
        not_ready, alive, measured = (
            await self.told.ready(),
            await self.told.live(),
            await self.told.metrics(),
        )
        assert not_ready.status == 503
        assert KINDS[loop] in not_ready.body
        assert alive.status == 200
        assert f"{loop} ended" in alive.body
        label = loop.replace('"', '\\"')
        assert f'rowbus_loops_ended_total{{loop="{label}"}} 1' in measured.body
        assert f"{loop} ended though nobody asked it to; it is begun anew" in self.critical


async def _place(_message: dict[str, object]) -> None: ...


def _hourly(_tick: datetime) -> None: ...


async def _audit(_event: rowbus.Event) -> None: ...


def task_of(loop: str) -> asyncio.Task[object] | None:
    return next((task for task in asyncio.all_tasks() if task.get_name() == loop), None)


async def test_a_loop_that_ends_unasked_is_shown_wherever_operators_look_and_works_again(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    company = Company(orders.dsn)
    async with AsyncExitStack() as stack:
        for service in company.services:
            stack.push_async_callback(service.stop)
            await service.start()
        for loop in KINDS:
            await eventually(lambda: is_there(loop))  # noqa: B023 - called within this turn
            task = task_of(loop)
            assert task is not None
            task.cancel()
            await asyncio.wait([task])
            await eventually(company.is_not_ready)
            await company.says(loop)
            await company.endpoint.send("Sales", {}, type="Shop.Place")
            await eventually(company.is_ready)
        found = [each for each in company.findings() if each.subject == "loops of rowbus Sales"]
    assert [each.level for each in found] == [Level.WARN]
    critical = [each.getMessage() for each in caplog.records if each.levelno == logging.CRITICAL]
    assert {text.partition(" ended though")[0] for text in critical} == set(KINDS)
    caplog.clear()


async def is_there(loop: str) -> bool:
    return task_of(loop) is not None


def test_a_long_application_name_leaves_room_for_the_mark() -> None:
    name = marked("rowbus " + "ü" * 60, 12)
    assert name.startswith("rowbus ü")
    assert name.endswith(" (ended loops: 12)")
    assert len(name.encode()) <= LONGEST_NAME


class Workers:
    """One worker, as its supervisor knows it."""

    count = 1

    def processes(self) -> dict[int, int]:
        return {1: 4711}


async def test_a_supervisor_says_which_loops_of_its_workers_ended(short_folder: str) -> None:
    worker = MeasuredService(_Program(), Address("", 0, f"{short_folder}/4711.sock"))
    supervisor = ToldWorkers(cast("Any", Workers()), None, short_folder)
    process.note_ended("rowbus ticker", ValueError())
    await worker.start()
    try:
        assert "\nworker 1: rowbus ticker ended" in (await supervisor.live()).body
    finally:
        await worker.stop()
    assert (await supervisor.live()).body == "alive\n"


@pytest.fixture
def short_folder() -> Iterator[str]:
    """Give a folder whose name leaves room for that of a socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder
