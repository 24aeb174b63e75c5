"""Loops that end though nobody asked them to are reported and begun anew, whatever ended them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rowbus.running.bounded import Bounded
from rowbus.running.critical import Alarm, ReportedBreaker
from rowbus.running.service import Service
from rowbus.running.telemetry import process
from tests.fixtures.every import every

logger = logging.getLogger("rowbus.receiving")


@pytest.fixture(autouse=True)
def _nothing_is_told_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions of later tests not say that loops ended here."""
    monkeypatch.setattr(process, "ENDED", Bounded())


class Panic(BaseException):
    """Stands for what PyO3 makes of a Rust panic."""


class Worker(Service):
    """A service whose loop ends in some way when it works first."""

    def __init__(self, ends: str, reported: list[str], told: asyncio.Event | None = None) -> None:
        def report(text: str, _error: BaseException) -> None:
            reported.append(text)
            asyncio.get_running_loop().call_soon((told or asyncio.Event()).set)

        alarm = Alarm(report)
        super().__init__("rowbus worker", ReportedBreaker("Working", "Could not work", logger, alarm))
        self.ends = ends
        self.again = asyncio.Event()
        self.times = 0

    async def work(self) -> None:
        self.times += 1
        if self.times > 1:
            self._outages.succeeded()
            self.again.set()
            await self.pause(60)
        elif self.ends == "panic":
            raise Panic
        else:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)


@every("ends", ["panic", "cancellation"])
async def test_a_loop_that_ends_unasked_is_reported_and_begun_anew(
    ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    reported, told = list[str](), asyncio.Event()
    worker = Worker(ends, reported, told)
    await worker.start()
    async with asyncio.timeout(30):
        await told.wait()
        assert process.going_on() == ["Working"]
        await worker.again.wait()
    assert process.going_on() == []
    assert not worker.is_cut_off()
    await worker.stop()
    assert reported == ["rowbus worker ended though nobody asked it to; it is begun anew"]
    assert [each.levelno for each in caplog.records if each.levelno >= logging.CRITICAL] == [logging.CRITICAL]
    caplog.clear()


async def test_a_service_tells_its_stop_from_other_cancellations() -> None:
    cut_off = list[bool]()

    class Waiting(Worker):
        async def work(self) -> None:
            self.again.set()
            try:
                await asyncio.Event().wait()
            finally:
                cut_off.append(self.is_cut_off())

    worker = Waiting("", [])
    await worker.start()
    await worker.again.wait()
    worker.again.clear()
    (loop,) = [task for task in asyncio.all_tasks() if task.get_name() == "rowbus worker"]
    loop.cancel()
    await worker.again.wait()
    await worker.stop(0)
    assert cut_off == [False, True]


def test_the_end_of_the_event_loop_is_a_stop() -> None:
    cut_off = list[bool]()

    class Waiting(Worker):
        async def work(self) -> None:
            self.again.set()
            try:
                await asyncio.Event().wait()
            finally:
                cut_off.append(self.is_cut_off())

    async def leave() -> None:
        worker = Waiting("", [])
        await worker.start()
        await worker.again.wait()

    asyncio.run(leave())
    assert cut_off == [True]
