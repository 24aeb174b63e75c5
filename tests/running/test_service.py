"""The base of services: it starts, drains, stands by, leads, and goes on after errors; each outage is reported once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from rowbus.errors import ConfigurationError, HandlerError, StorageError
from rowbus.running import backoff
from rowbus.running import service as services_base
from rowbus.running.critical import Alarm, ReportedBreaker
from rowbus.running.service import ElectedService, Election, Lifetime, Service
from rowbus.running.signals import Serving
from rowbus.testing import FakeClock
from tests.conformance.transport import eventually

logger = logging.getLogger("rowbus.endpoint")
LIMIT = timedelta(seconds=30)
AWAY = StorageError("away", sqlstate=None, transient=True)


@pytest.fixture(autouse=True)
def _quick_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a failure wait 1 ms instead of 1 s, and 10 s once critical."""
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", 0.001)
    monkeypatch.setattr(backoff, "WAIT_WHEN_TRIGGERED", 0.001)


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rowbus")


class Told:
    """Hears of critical errors, by a clock of the test's."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.critical: list[str] = []

    def breaker(self) -> ReportedBreaker:
        return ReportedBreaker("Working", "Working failed", logger, Alarm(self.hear, LIMIT, self.clock))

    def hear(self, text: str, _error: BaseException) -> None:
        self.critical.append(text)


class Worker(Service):
    """Works until it is told to go on, or fails with `error`."""

    def __init__(self, outages: ReportedBreaker) -> None:
        super().__init__("rowbus test", outages)
        self.error: Exception | None = None
        self.go_on = asyncio.Event()
        self.begun = 0
        self.done = 0
        self.prepared = 0
        self.released = 0

    async def prepare(self) -> None:
        self.prepared += 1

    async def work(self) -> None:
        self.begun += 1
        if self.error is not None:
            raise self.error
        self._outages.succeeded()
        await self.go_on.wait()
        await self.pause(0.001)
        self.done += 1

    async def release(self) -> None:
        self.released += 1


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def worker(told: Told) -> Worker:
    return Worker(told.breaker())


# ------------------------------------------------------------------------------------------------------ start and stop


async def test_a_service_that_was_never_started_stops(worker: Worker) -> None:
    await worker.stop()
    assert worker.begun == 0


async def test_starting_twice_is_starting_once_and_stopping_twice_is_harmless(worker: Worker) -> None:
    await worker.start()
    await worker.start()
    await eventually(lambda: worker.begun == 1)
    worker.go_on.set()
    await worker.stop()
    await worker.stop()
    assert (worker.prepared, worker.released) == (1, 1)


async def test_a_stop_lets_the_work_in_hand_finish(worker: Worker) -> None:
    await worker.start()
    await eventually(lambda: worker.begun == 1)
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    assert not stopping.done()

    worker.go_on.set()
    await stopping

    assert (worker.begun, worker.done) == (1, 1)


async def test_after_its_limit_a_stop_cancels_the_work_in_hand(worker: Worker) -> None:
    await worker.start()
    await eventually(lambda: worker.begun == 1)

    await worker.stop(0)

    assert (worker.done, worker.released) == (0, 1)


async def test_a_stop_that_is_cancelled_cancels_the_work_in_hand(worker: Worker) -> None:
    await worker.start()
    await eventually(lambda: worker.begun == 1)
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)

    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping

    assert (worker.done, worker.released) == (0, 1)


async def test_a_service_that_has_stopped_can_start_again(worker: Worker) -> None:
    await worker.start()
    await worker.stop(0)
    await worker.start()
    await eventually(lambda: worker.begun > 0)
    await worker.stop(0)
    assert worker.prepared == 2


async def test_however_many_start_and_stop_it_one_begins_and_all_wait_for_its_end(told: Told) -> None:
    """A stop while it starts comes after the start; one that is impatient interrupts what the first one waits for."""
    life, made, go_on = Lifetime[Worker]("it"), list[Worker](), asyncio.Event()

    async def begin() -> Worker:
        made.append(Worker(told.breaker()))
        await go_on.wait()
        await made[-1].start()
        return made[-1]

    starting = [asyncio.create_task(life.begin(begin)) for _ in range(2)]
    await asyncio.sleep(0)
    stopping = [asyncio.create_task(life.end()) for _ in range(2)]
    await asyncio.sleep(0)
    go_on.set()
    (worker,) = {id(each): each for each in await asyncio.gather(*starting)}.values()
    await eventually(lambda: worker.begun == 1)
    assert not any(stop.done() for stop in stopping)
    again = asyncio.create_task(life.begin(begin))
    await asyncio.sleep(0)
    assert made == [worker]

    await life.end(0)

    await asyncio.gather(*stopping)
    assert (worker.done, worker.released) == (0, 1)
    assert await again is made[1]
    await life.end(0)
    await life.end(0)


async def test_the_last_block_that_is_open_stops_it() -> None:
    """Blocks within each other, or in tasks that run at once; one whose start fails counts for none."""

    class Recorder(Serving):
        def __init__(self) -> None:
            self.calls = list[str]()

        async def start(self) -> None:
            self.calls.append("start")
            if len(self.calls) == 3:
                raise OSError("no")

        async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as it is declared
            self.calls.append("stop")

    served = Recorder()
    async with served:
        async with served:
            with pytest.raises(OSError, match="no"):
                await served.__aenter__()
        assert served.calls == ["start"] * 3
    assert served.calls == ["start"] * 3 + ["stop"]
    async with served:
        pass
    assert served.calls[4:] == ["start", "stop"]


async def test_a_service_is_used_in_its_own_loop_until_that_is_closed(told: Told) -> None:
    life = Lifetime[Worker]("it")

    async def begin() -> Worker:
        worker = Worker(told.breaker())
        await worker.start()
        return worker

    first = await life.begin(begin)
    for call in (lambda: life.begin(begin), life.end):
        with pytest.raises(ConfigurationError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, call())
    await life.end(0)
    assert await asyncio.to_thread(asyncio.run, life.begin(begin)) is not first
    assert life.run is None
    await life.end()


async def test_what_a_service_waits_for_cannot_wait_for_its_end(told: Told) -> None:
    """Its start, its end and calls after a commit, in tasks and threads of theirs; what they leave behind can."""
    refused, left = list[str](), asyncio.Event()

    class Stops(Worker):
        async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as the base
            await attempt()
            await super().stop(timeout)

    life = Lifetime[Stops]("it")

    async def attempt() -> None:
        for call in (life.end, lambda: life.begin(begin)):
            with pytest.raises(HandlerError, match="stops its own") as error:
                await asyncio.wait_for(asyncio.create_task(call()), 5)
            refused.append(str(error.value))

    async def stop_later() -> None:
        await left.wait()
        await life.end(0)

    async def begin() -> Stops:
        await attempt()
        tasks.append(asyncio.create_task(stop_later()))
        worker = Stops(told.breaker())
        await worker.start()
        return worker

    tasks = list[asyncio.Task[None]]()
    await life.begin(begin)
    left.set()
    await asyncio.gather(*tasks)
    assert (len(refused), life.run) == (4, None)


async def test_a_service_that_cannot_prepare_does_not_start(worker: Worker) -> None:
    async def refuse() -> None:
        raise AWAY

    worker.prepare = refuse  # type: ignore[method-assign]  # as a server that is away
    with pytest.raises(StorageError):
        await worker.start()
    await worker.stop()
    assert worker.begun == 0


# --------------------------------------------------------------------------------------------------------- outages


async def test_an_outage_is_a_warning_at_first_then_a_critical_error_and_a_line_when_it_ends(
    worker: Worker, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    worker.error = AWAY
    await worker.start()
    await eventually(lambda: worker.begun > 5)
    assert told.critical == []
    told.clock.advance(LIMIT.total_seconds())
    await eventually(lambda: bool(told.critical))
    more = worker.begun + 5
    await eventually(lambda: worker.begun > more)

    worker.error = None
    await eventually(lambda: "works again" in caplog.text)
    await worker.stop(0)

    assert told.critical == ["Working failed"]
    began, ended = caplog.messages
    assert began == "Working failed; trying again until it works: away"
    assert ended.startswith("Working works again after ")
    assert worker.released >= more


async def test_an_error_of_another_kind_is_logged_with_its_traceback_and_ends_nothing(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    worker.error = ValueError("a bug")
    await worker.start()
    await eventually(lambda: worker.begun > 2)
    worker.error = None
    await eventually(lambda: "works again" in caplog.text)
    await worker.stop(0)

    unexpected = next(record for record in caplog.records if "Unexpected error" in record.message)
    assert unexpected.exc_info is not None


async def test_a_callback_that_fails_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def complain(_text: str, error: BaseException) -> None:
        raise RuntimeError("no network") from error

    alarm = Alarm(complain, timedelta(0))
    worker = Worker(ReportedBreaker("Working", "Working failed", logger, alarm))
    worker.error = AWAY
    await worker.start()
    await eventually(lambda: worker.begun > 2)
    worker.error = None
    await eventually(lambda: "works again" in caplog.text)
    await worker.stop(0)

    assert "The critical-error callback failed when it was told: Working failed" in caplog.messages


# --------------------------------------------------------------------------------------------------------- election


class Lock:
    """A lock that one session holds."""

    def __init__(self) -> None:
        self.holder: Candidate | None = None


class Candidate(ElectedService["Candidate"]):
    """Leads while it holds the lock; its session is itself."""

    def __init__(self, outages: ReportedBreaker, lock: Lock | None) -> None:
        super().__init__("rowbus test", outages)
        self._lock = lock
        self.tries = 0
        self.opened = 0
        self.asks_once = False
        self.led_when_closed = False

    async def open(self) -> Candidate:
        self.opened += 1
        return self

    async def close(self) -> None:
        self.led_when_closed = self.led_when_closed or self.leads.is_set()
        if self._lock is not None and self._lock.holder is self:
            self._lock.holder = None

    def election(self, session: Candidate) -> Election | None:
        if self._lock is None:
            return None
        return Election(session.try_lead, self.name, "Standing by", 0.001, self.asks_once)

    async def try_lead(self) -> bool:
        assert self._lock is not None
        self.tries += 1
        self._lock.holder = self._lock.holder or self
        return self._lock.holder is self

    async def name(self) -> str:
        return "another"

    async def lead(self, session: Candidate) -> None:
        self.leads.set()
        await self._stopping.wait()


Make = Callable[["Lock | None"], Candidate]


@pytest.fixture
def candidate(told: Told) -> Callable[[Lock | None], Candidate]:
    return lambda lock: Candidate(told.breaker(), lock)


async def test_one_leads_and_the_other_stands_by_says_so_once_and_takes_over(
    candidate: Callable[[Lock | None], Candidate], caplog: pytest.LogCaptureFixture
) -> None:
    lock = Lock()
    first, second = candidate(lock), candidate(lock)
    await first.start()
    await first.leads.wait()
    await second.start()
    await eventually(lambda: second.tries > 3)
    assert not second.leads.is_set()

    await first.stop()
    await second.leads.wait()
    assert not first.leads.is_set()
    await second.stop()

    assert caplog.messages == ["Standing by: another"]
    assert not first.led_when_closed
    assert lock.holder is None


@pytest.mark.parametrize("asks_once", [True, False])
async def test_where_a_refused_session_may_not_ask_again_the_next_try_is_anothers(
    candidate: Callable[[Lock | None], Candidate], caplog: pytest.LogCaptureFixture, *, asks_once: bool
) -> None:
    lock = Lock()
    first, second = candidate(lock), candidate(lock)
    second.asks_once = asks_once
    lock.holder = first
    await second.start()
    await eventually(lambda: second.tries > 3)
    lock.holder = None
    await second.leads.wait()
    assert (second.opened == second.tries) is asks_once
    await second.stop()
    assert caplog.messages == ["Standing by: another"]


async def test_one_that_stands_by_stops_without_leading(
    candidate: Callable[[Lock | None], Candidate],
) -> None:
    lock = Lock()
    lock.holder = candidate(lock)
    second = candidate(lock)
    await second.start()
    await eventually(lambda: second.tries > 0)

    await second.stop()

    assert not second.leads.is_set()
    assert lock.holder is not second


async def test_without_an_election_each_leads(candidate: Callable[[Lock | None], Candidate]) -> None:
    services = [candidate(None), candidate(None)]
    for service in services:
        await service.start()
    for service in services:
        await service.leads.wait()
        await service.stop()


class Failing(Candidate):
    """Fails when it leads, or when it looks."""

    def __init__(
        self, outages: ReportedBreaker, lock: Lock, looks: Exception | None, work: Exception | None
    ) -> None:
        super().__init__(outages, lock)
        self.looks, self.work_fails, self.led = looks, work, 0

    async def try_lead(self) -> bool:
        if self.looks is not None:
            raise self.looks
        return await super().try_lead()

    async def lead(self, session: Candidate) -> None:
        self.led += 1
        if self.work_fails is not None:
            raise self.work_fails


async def test_a_look_of_a_standby_ends_no_outage_of_its_work(told: Told, candidate: Make) -> None:
    """Two whose work fails take turns: each sees the other lead now and then."""
    lock = Lock()
    failing = Failing(told.breaker(), lock, None, ValueError("the work fails"))
    await failing.start()
    for turn in range(4):
        await eventually(lambda turn=turn: failing.led > turn)
        lock.holder, tries, led = candidate(lock), failing.tries, failing.led
        await eventually(lambda tries=tries: failing.tries > tries + 2)
        assert failing.led == led
        told.clock.advance(LIMIT.total_seconds() / 3)
        lock.holder = None
    await eventually(lambda: failing.led > led)
    await failing.stop()

    assert told.critical == ["Working failed"]


async def test_a_look_of_a_standby_ends_an_outage_of_the_database(
    told: Told, candidate: Make, caplog: pytest.LogCaptureFixture
) -> None:
    lock = Lock()
    lock.holder = candidate(lock)
    standby = Failing(told.breaker(), lock, AWAY, None)
    await standby.start()
    await eventually(lambda: "Working failed" in caplog.text)
    standby.looks = None
    await eventually(lambda: "works again" in caplog.text)
    await standby.stop()


async def test_that_another_leads_for_long_ends_an_outage_of_the_work(
    told: Told, candidate: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services_base, "SETTLED", 0.0)
    lock = Lock()
    failing = Failing(told.breaker(), lock, None, ValueError("the work fails"))
    await failing.start()
    await eventually(lambda: "Working failed" in caplog.text)
    await eventually(lambda: lock.holder is None)
    lock.holder = candidate(lock)
    await eventually(lambda: "works again" in caplog.text)
    await failing.stop()
