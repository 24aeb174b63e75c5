"""`tools/flows` counts what a run walks, the same each time, and refuses only what walks further than its ceiling."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tools.flows import still
from tools.flows.limits import LIMITS, Counts, Limit, differences, table
from tools.flows.still import StillLoop
from tools.flows.walk import Change, Function, Tracer, Walk, typical

SENDER = """\
from walked.receiver import receive, receive_later

def send(number):
    return [receive(one) for one in range(number)]

async def wait(event):
    await receive_later(event)
"""
RECEIVER = """\
def receive(number):
    return tuple(double(number) for _ in range(1))

def double(number):
    return 2 * number

async def receive_later(event):
    for _ in range(2):
        await event.wait()
        event.clear()

def never():
    return None
"""


@pytest.fixture
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the folder of a package to walk through."""
    folder = tmp_path / "walked"
    folder.mkdir()
    for name, text in (("__init__", ""), ("sender", SENDER), ("receiver", RECEIVER)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "walked"]:
        del sys.modules[name]


def sender() -> Any:  # noqa: ANN401 - a module
    module: ModuleType = importlib.import_module("walked.sender")
    return module


def test_functions_and_changes_of_file_are_counted_and_imports_are_not(walked: Path) -> None:
    with Tracer(walked).walk() as walk:
        sender().send(3)

    assert {function.name for function in walk.functions} == {
        "send",
        "receive",
        "receive.<locals>.<genexpr>",
        "double",
    }
    assert walk.files == {"sender.py", "receiver.py"}
    assert walk.changes == {Change("sender.py", "receiver.py"): 3, Change("receiver.py", "sender.py"): 3}


def test_a_coroutine_that_waits_and_goes_on_begins_once_and_passes_nowhere(walked: Path) -> None:
    async def flow() -> Walk:
        event = asyncio.Event()
        with Tracer(walked).walk() as walk:
            waiting = asyncio.ensure_future(sender().wait(event))
            for _ in range(2):
                await asyncio.sleep(0)
                event.set()
            await waiting
        return walk

    walk = asyncio.run(flow())

    assert {function.name for function in walk.functions} == {"wait", "receive_later"}
    assert walk.changes == {Change("sender.py", "receiver.py"): 1, Change("receiver.py", "sender.py"): 1}


def test_what_few_walks_have_or_lack_is_chance() -> None:
    needed, chance = Function("a.py", "needed", 1), Function("b.py", "chance", 1)
    there = Change("a.py", "b.py")
    walks = [
        Walk({needed}, Counter({there: 2})),
        Walk({needed, chance}, Counter({there: 5})),
        Walk(set(), Counter({there: 2})),
    ]

    assert typical(walks) == Walk({needed}, Counter({there: 2}))


def test_time_stands_still_while_something_is_awaited_and_passes_when_told_to() -> None:
    async def flow() -> tuple[bool, bool]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StillLoop)
        timer = asyncio.ensure_future(asyncio.sleep(0.001))
        await loop.rest()
        before = timer.done()
        loop.pass_time(0.001)
        await loop.rest()
        return before, timer.done()

    with asyncio.Runner(loop_factory=StillLoop) as runner:
        assert runner.run(flow()) == (False, True)


def test_a_loop_rests_only_when_nothing_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(still, "QUIET", 0.0)

    async def flow() -> int:
        done: list[int] = []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StillLoop)

        async def work() -> None:
            for step in range(100):
                await asyncio.sleep(0)
                done.append(step)

        working = asyncio.ensure_future(work())
        await loop.rest()
        rested_after = len(done)
        await working
        return rested_after

    with asyncio.Runner(loop_factory=StillLoop) as runner:
        assert runner.run(flow()) == 100


def test_only_a_walk_above_its_ceiling_is_refused_and_targets_are_shown() -> None:
    limits = LIMITS["send"]
    counts = Counts(*(limit.ceiling for limit in limits))
    further, shorter = counts._replace(files=counts.files + 1), counts._replace(files=counts.files - 1)

    assert list(differences({"send": counts})) == []
    assert [is_more for _, is_more in differences({"send": further})] == [True]
    assert [is_more for _, is_more in differences({"send": shorter})] == [False]
    assert f"{counts.files} of {limits.files.target}" in list(table({"send": counts}))[1]
    assert Limit(7).target == 7
