"""A step: what a flow does once, from its cause to its effect; and what is typical of its walks."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg

import rowbus
from rowbus.cli import app
from rowbus.database.postgresql import roundtrip
from rowbus.running import loop_watch
from rowbus.transport.pauses import table as pauses
from tools.flows.still import StillLoop
from tools.flows.walk import Tracer, Walk, typical

BY_THE_CLOCK = ((loop_watch, "PERIOD"), (pauses, "PERIOD"), (roundtrip, "STALE_AFTER"))
"""Work by the machine's clock that rests while flows are walked: looks at the event loop, questions what is
paused, plans that age."""

WARM_UP = 6  # steps before those that count, in which connections open, and plans come to stay
STEPS = 7
HOUR = 3600.0
PATIENCE = 20.0  # seconds until an effect counts as never coming


async def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A flow that can be walked again and again."""

    act: Callable[[], object]
    """Causes it; blocks the event loop."""

    effects: Callable[[], int]
    """Counts the effects so far."""

    takes: float = 0.0
    """The seconds of the clock that it takes."""

    prepare: Callable[[], Awaitable[object]] = _nothing
    """Brings about what it needs."""


Flow = Callable[[str], AbstractAsyncContextManager[Step]]
"""Starts, in a database, the services that a flow needs, and says what it does."""


def walk(flow: Flow, dsn: str) -> Walk:
    """Walk a flow some times in a database, and return what is typical."""
    with ExitStack() as patches, asyncio.Runner(loop_factory=StillLoop) as runner:
        for module, name in BY_THE_CLOCK:
            patches.enter_context(patch.object(module, name, HOUR))
        return runner.run(_walk(flow, dsn))


async def _walk(flow: Flow, dsn: str) -> Walk:
    async with flow(dsn) as step:
        walks = [await _walk_once(step) for _ in range(WARM_UP + STEPS)]
    return typical(walks[WARM_UP:])


async def _walk_once(step: Step) -> Walk:
    await step.prepare()
    await rest()
    before = step.effects()
    with Tracer(Path(rowbus.__file__).parent).walk() as walk:
        step.act()
        await rest(step.takes)
        await _until(lambda: step.effects() > before)
    return walk


async def rest(takes: float = 0.0) -> None:
    """Wait until nothing is under way, and again when so many seconds have passed."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StillLoop)  # noqa: S101 - for mypy
    await loop.rest()
    if takes:
        time.sleep(takes)  # noqa: ASYNC251 - for the server's clock, too
        loop.pass_time(takes)
        await loop.rest()


async def _until(holds: Callable[[], bool]) -> None:
    """Wait for what a slow server may still do."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("The flow has no effect.")
        await rest()


# ------------------------------------------------------------------------------------------------------ for all flows


def command(*arguments: str) -> None:
    """Run a command of `rowbus` in this process, without its output."""
    with contextlib.redirect_stdout(io.StringIO()):
        app(list(arguments), standalone_mode=False)


def count(dsn: str, table: str) -> int:
    """Count the rows of a table."""
    with psycopg.connect(dsn) as connection:
        counted: Any = connection.execute(
            psycopg.sql.SQL("select count(*) from {}").format(psycopg.sql.Identifier(table))
        ).fetchone()
        return int(counted[0])


def tick(dsn: str) -> None:
    """Make a tick in each log that has new events, as a ticker does."""
    ticking = threading.Thread(target=rowbus.Ticker(dsn).run_once)  # which has an event loop of its own
    ticking.start()
    ticking.join()
