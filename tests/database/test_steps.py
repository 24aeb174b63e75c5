"""Coroutines that never wait, run to their end without an event loop, or beside one."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from rowbus.database.statements import run_now


async def double(number: int) -> int:
    return 2 * number


async def double_all(*numbers: int) -> list[int]:
    return [await double(number) for number in numbers]


async def test_a_coroutine_runs_to_its_end_also_where_an_event_loop_runs_and_is_named_if_it_waits() -> None:
    waiting = asyncio.sleep(0)

    assert run_now(double_all(1, 2)) == [2, 4]
    with pytest.raises(RuntimeError, match="sleep"):
        run_now(waiting)

    assert inspect.getcoroutinestate(waiting) == inspect.CORO_CLOSED
