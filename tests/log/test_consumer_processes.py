"""Processes of a consumer that die or freeze: the log goes on, what broke them is put aside, nothing is done twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rowbus.settings import ConsumerSettings
from tests.fixtures.processes import Program, Programs, await_that
from tests.log.orders import Orders

PROGRAM = """
import os, sys, time
from datetime import timedelta
import rowbus

log = rowbus.Log(sys.argv[1], "orders")
name, settings = sys.argv[2], dict(eval(sys.argv[3]))
member = settings.pop("member", None)

@log.consumer("one", subconsumer=member, settings=rowbus.ConsumerSettings(
    poll_delay=timedelta(milliseconds=50), retry_delay=timedelta(0), silence_timeout=timedelta(seconds=2), **settings
))
def one(event, context):
    if event.data == "die":
        os.kill(os.getpid(), 9)
    if event.data == "touch and wait":
        context.connection.execute("update total set number = number + 1")
    if event.data.endswith("wait"):
        print("waiting", flush=True)
        while not os.path.exists("go on"):
            time.sleep(0.01)
    context.connection.execute("insert into seen (data) values (%s)", [event.data + " by " + name])

log.run()
"""

LONG_HANDLER = """
import sys, time
from datetime import timedelta
import rowbus

log = rowbus.Log(sys.argv[1], "orders")

@log.consumer("one", settings=rowbus.ConsumerSettings(
    poll_delay=timedelta(milliseconds=50), silence_timeout=timedelta(seconds=1)
))
def one(event, context):
    print("working", flush=True)
    time.sleep(3)
    context.connection.execute("insert into seen (data) values (%s)", [event.data + " by " + sys.argv[2]])

log.run()
"""


class Processes:
    """Processes that have the same consumer."""

    def __init__(self, folder: Path, orders: Orders) -> None:
        self._orders = orders
        self._folder = folder
        self._programs = Programs(folder, orders.dsn)

    def start(self, name: str, settings: str = "{}", program: str = PROGRAM) -> Program:
        path = self._folder / "consumer.py"
        path.write_text(program, "utf-8")
        return self._programs.start(path, self._orders.dsn, name, settings)

    def go_on(self) -> None:
        """Let handlers that wait go on."""
        (self._folder / "go on").touch()

    def end(self) -> None:
        self._programs.end()


@pytest.fixture
def processes(tmp_path: Path, orders: Orders) -> Iterator[Processes]:
    orders.register("one")
    orders.connection.execute("create table total as select 0 as number")
    processes = Processes(tmp_path, orders)
    yield processes
    processes.end()


def is_led(orders: Orders) -> bool:
    query = "select from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and granted"
    return bool(orders.all(query))


def is_finished(orders: Orders, tick: int) -> bool:
    return orders.position()[0] >= tick


def await_death_or(program: Program, end: Callable[[], bool]) -> None:
    await_that(lambda: not program.is_running or end(), "a death or the end")


@pytest.mark.slow
@pytest.mark.product
@pytest.mark.parametrize("settings", ["{}", "{'whole_batches': True}"])
def test_an_event_that_kills_its_process_is_put_aside(
    orders: Orders, processes: Processes, settings: str
) -> None:
    """A supervisor starts the process anew; each death halves what is in doubt."""
    tick = orders.deliver("0", "die", "1")
    deaths = -1
    while not is_finished(orders, tick):
        deaths += 1
        assert deaths <= 6
        program = processes.start("it", f"{{'max_retries': 0, **{settings}}}")
        await_death_or(program, lambda: is_finished(orders, tick))
    assert orders.seen() == ["0 by it", "1 by it"]
    (reason,) = orders.one("select dl_reason from pgq.dead_letter where ev_data = 'die'")
    assert "was handled alone when its process or the server ended" in reason


@pytest.mark.parametrize("data", ["wait", "touch and wait"], ids=["idle", "in an open transaction"])
def test_another_goes_on_when_the_leader_is_frozen(orders: Orders, processes: Processes, data: str) -> None:
    """The frozen one has locked a row in its transaction, or nothing; thawed, it writes nothing."""
    frozen = processes.start("frozen")
    await_that(lambda: is_led(orders), "the leader")
    tick = orders.deliver("a", data, "b")
    frozen.await_line("waiting")
    os.kill(frozen.pid, signal.SIGSTOP)
    processes.go_on()
    try:
        other = processes.start("other")
        await_that(lambda: is_finished(orders, tick), "the other to take over", patience=30)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    frozen.await_line("orders/one failed; trying again")
    other.kill()
    last = orders.deliver("c")
    await_that(lambda: is_finished(orders, last), "the thawed one to take over")
    assert orders.seen() == ["a by other", f"{data} by other", "b by other", "c by frozen"]
    assert orders.one("select number from total") == (1 if "touch" in data else 0,)


def test_a_member_takes_over_from_a_frozen_one_also_what_it_has_locked(
    orders: Orders, processes: Processes
) -> None:
    """A third member, which is alive and has a transaction open, keeps its session."""
    settings = "{{'member': '{}', 'dead_after': timedelta(seconds=2)}}"
    alive = processes.start("alive", settings.format("alive"))
    await_that(lambda: is_led(orders), "the first member")
    orders.deliver("wait")
    alive.await_line("waiting")
    frozen = processes.start("frozen", settings.format("frozen"))
    orders.deliver("touch and wait")
    frozen.await_line("waiting")
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        processes.start("other", settings.format("other")).await_line("waiting")
        processes.go_on()
        await_that(lambda: len(orders.seen()) == 2, "both batches", patience=30)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    frozen.await_line("orders/one.frozen failed; trying again")
    assert not [line for line in alive.lines if "failed" in line]
    assert sorted(orders.seen()) == ["touch and wait by other", "wait by alive"]
    assert orders.one("select number from total") == (1,)


def test_another_goes_on_when_an_idle_leader_is_frozen(orders: Orders, processes: Processes) -> None:
    frozen = processes.start("frozen")
    await_that(lambda: is_led(orders), "the leader")
    first = orders.deliver("a")
    await_that(lambda: is_finished(orders, first), "the first event")
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        processes.start("other")
        tick = orders.deliver("b")
        await_that(lambda: is_finished(orders, tick), "the other to take over", patience=30)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    assert orders.seen() == ["a by frozen", "b by other"]


def test_a_handler_that_takes_longer_than_the_silence_keeps_its_batch(
    orders: Orders, processes: Processes
) -> None:
    long = processes.start("long", program=LONG_HANDLER)
    await_that(lambda: is_led(orders), "the leader")
    tick = orders.deliver("a")
    long.await_line("working")
    processes.start("other", program=LONG_HANDLER)
    await_that(lambda: is_finished(orders, tick), "the end")
    assert orders.seen() == ["a by long"]


def test_the_silence_lasts_fifteen_seconds_with_the_take_over() -> None:
    settings = ConsumerSettings()
    assert settings.silence_timeout is not None
    assert settings.silence_timeout + 1.2 * settings.poll_delay < timedelta(seconds=15)
