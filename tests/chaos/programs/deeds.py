"""All that handlers do here which they should not, each under its name; a message or an event says which.

After some their attempt has failed, whatever they return; after others the message is handled, and nobody else is to
notice that they were done.
"""

from __future__ import annotations

import asyncio
import decimal
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, LiteralString

import rowbus
from tests.chaos.programs.effects import note, tenant

AnyContext = rowbus.Context | rowbus.LogContext
Deed = Callable[[AnyContext, dict[str, Any]], Awaitable[object]]

END_SESSION = "select pg_terminate_backend(pg_backend_pid())"
MANY = "select n from generate_series(1, 100000) as n"
COPY = "copy effect (stage, number, process, again) from stdin"
STRANGER = "chaos_stranger"
"""A role that may note effects, and nothing else."""

held: list[object] = []
"""Things left open last, so that nothing closes them."""


class Panic(BaseException):
    """Stands for what PyO3 makes of a Rust panic: no Exception."""


def panic() -> None:
    raise Panic


def interrupt() -> None:
    raise KeyboardInterrupt


def fail() -> None:
    raise ValueError("always")


def _at_once(call: Callable[[], object]) -> Deed:
    """Make a deed of what needs neither the context nor the message."""

    async def deed(_context: AnyContext, _message: dict[str, Any]) -> None:
        call()

    return deed


def _in_a_task(call: Callable[[], object]) -> Deed:
    """Make a deed of it in a task that the handler awaits."""

    async def deed(context: AnyContext, message: dict[str, Any]) -> None:
        await asyncio.gather(_at_once(call)(context, message), asyncio.sleep(0))

    return deed


async def end_session(context: AnyContext, _message: dict[str, Any]) -> None:
    await context.connection.execute(END_SESSION)


async def leave_a_task(context: AnyContext, message: dict[str, Any]) -> None:
    """Fail beside a sibling that goes on writing."""
    await asyncio.gather(_write_on(context, message), _fail_soon())


async def _write_on(context: AnyContext, message: dict[str, Any]) -> None:
    try:
        while True:
            await note(context, "left over", message)
            await asyncio.sleep(0.01)  # others get the connection, if it is theirs
    finally:
        await note(context, "left over", message)


async def _fail_soon() -> None:
    await asyncio.sleep(0.03)
    fail()


async def raise_in_a_stream(context: AnyContext, _message: dict[str, Any]) -> None:
    rows = context.connection.cursor().stream(MANY)
    async for _row in rows:
        fail()


async def keep_a_stream(context: AnyContext, _message: dict[str, Any]) -> None:
    rows = context.connection.cursor().stream(MANY)
    held[:] = [rows]
    await anext(rows)


async def keep_a_copy(context: AnyContext, _message: dict[str, Any]) -> None:
    copy = context.connection.cursor().copy(COPY)
    held[:] = [copy]
    await copy.__aenter__()


async def set_variables(_context: AnyContext, message: dict[str, Any]) -> None:
    tenant.set(str(message["number"]))
    decimal.getcontext().prec = 4


def _executing(statement: LiteralString) -> Deed:
    """Make a deed of a statement."""

    async def deed(context: AnyContext, _message: dict[str, Any]) -> None:
        await context.connection.execute(statement)

    return deed


DEEDS: dict[str, Deed] = {
    "connection": end_session,
    "crash": _at_once(lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "error": _at_once(fail),
    "panic": _at_once(panic),
    "panic in a task": _in_a_task(panic),
    "exit": _at_once(partial(sys.exit, 3)),
    "interrupt": _at_once(interrupt),
    "exit in a task": _in_a_task(partial(sys.exit, 3)),
    "task": leave_a_task,
    "stream": raise_in_a_stream,
    "stream kept": keep_a_stream,
    "copy kept": keep_a_copy,
    "variables": set_variables,
    "role": _executing(f"set role {STRANGER}"),
    "authorization": _executing(f"set session authorization {STRANGER}"),
    "read only": _executing("set default_transaction_read_only = on"),
}


UNTIL_RETRIED = frozenset({"task"})
"""Deeds that fail their attempt: a message that is to be handled does them no more once it is retried."""


async def do(context: AnyContext, message: dict[str, Any], *, is_retried: bool) -> None:
    """Do what a message that is to be handled has its handler do."""
    deed = message["deed"]
    if not is_retried or deed not in UNTIL_RETRIED:
        await DEEDS[deed](context, message)


async def take_poison(context: AnyContext, message: dict[str, Any]) -> bool:
    """Do what a poison has its handler do, after a note that must not stay, and a send that must not leave.

    Say whether it is one: its handler is to end then.
    """
    if (poison := message.get("poison")) is None:
        return False
    await note(context, "poison", message)
    if isinstance(context, rowbus.Context):
        await context.send("Follow", message, type="Chaos.Nothing")
    await DEEDS[poison](context, message)
    return True


# ------------------------------------------------------------------------------------------------------- in threads


def raise_in_a_sync_stream(context: rowbus.SyncContext) -> None:
    rows = context.connection.cursor().stream(MANY)
    for _row in rows:
        fail()


def keep_a_sync_copy(context: rowbus.SyncContext) -> None:
    copy = context.connection.cursor().copy(COPY)
    held[:] = [copy]
    copy.__enter__()


IN_THREADS: dict[str, Callable[[rowbus.SyncContext], object]] = {
    "panic": lambda _context: panic(),
    "exit": lambda _context: sys.exit(3),
    "interrupt": lambda _context: interrupt(),
    "stream": raise_in_a_sync_stream,
    "copy kept": keep_a_sync_copy,
}
