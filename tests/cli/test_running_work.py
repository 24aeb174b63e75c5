"""`rowbus running`: handlers that take long are listed, and ended."""

from __future__ import annotations

import json
import signal

import pytest

from rowbus.database.statements import source
from rowbus.transport.long_work.table import COLUMNS
from tests.fixtures.command_line import Ask, CommandLine

pytestmark = pytest.mark.one_version

PROGRAM = """
import asyncio
import rowbus

sales = rowbus.Endpoint("Sales", settings=rowbus.EndpointSettings(long_lease=rowbus_lease))

@sales.handler("Shop.Report", long=True)
async def report(message: dict, context: rowbus.LongContext):
    await context.progress(0.4, "page 12 of 30")
    print("reporting", flush=True)
    await asyncio.Event().wait()
""".replace("rowbus_lease", "__import__('datetime').timedelta(seconds=2)")

STEP = """
import asyncio
import os
from datetime import timedelta

import rowbus

sales = rowbus.Endpoint("Sales", settings=rowbus.EndpointSettings(long_lease=timedelta(seconds=2)))

@sales.handler("Shop.Report", long=True)
async def report(message: dict, context: rowbus.LongContext):
    async with context.transaction(finish=True) as step:
        await step.connection.execute("insert into effects values (%s)", [os.getpid()])
        print("in a step", flush=True)
        await asyncio.sleep(0 if os.environ.get("IS_SECOND") else 3600)
    print("done", flush=True)
"""


def test_a_table_of_running_work_is_found_by_its_columns() -> None:
    created = source("transport/long_work/sql/postgresql/create.sql")
    assert [column for column in COLUMNS if f"\n    {column} " not in created] == []
    assert created.count(",\n    ") + 1 == len(COLUMNS)


def test_running_work_is_listed_cancelled_and_taken_over_from_a_process_that_was_killed(
    rowbus: CommandLine, ask: Ask
) -> None:
    (rowbus.folder / "shop.py").write_text(PROGRAM)
    rowbus("schema", "install", "shop:sales")
    nothing = rowbus("running", "list")
    first = rowbus.start("run", "shop:sales")
    rowbus("queue", "send", "Sales", "{}", "--type", "Shop.Report")
    first.wait_for("reporting")
    table = rowbus("running", "list").stdout.splitlines()
    (found,) = json.loads(rowbus("running", "list", "--endpoint", "Sales", "--json").stdout)
    first.tell(signal.SIGKILL)
    first.wait()
    second = rowbus.start("run", "shop:sales")
    second.wait_for("reporting")
    (again,) = json.loads(rowbus("running", "list", "--json").stdout)
    cancelled = rowbus("running", "cancel", found["message_id"], "--why", "a typo")
    missing = rowbus("running", "cancel", "none")
    second.wait_for("Moving message")
    second.tell(signal.SIGTERM)
    second.wait()

    assert (nothing.returncode, nothing.stderr) == (1, "rowbus: no handler is running\n")
    assert table[0].split()[:4] == ["endpoint", "message", "type", "process"]
    assert "40% page 12 of 30" in table[1]
    assert (found["endpoint"], found["types"], found["fraction"]) == ("Sales", "Shop.Report", 0.4)
    assert again["failures"] == 1
    assert again["process"] != found["process"]
    assert cancelled.stdout == f"Cancelled the work of message {found['message_id']}.\n"
    assert (missing.returncode, missing.stderr) == (
        1,
        "rowbus: no handler is running for message none\n",
    )
    ((text,),) = ask("select headers::json ->> 'NServiceBus.ExceptionInfo.Message' from error")
    assert text.startswith("Cancelled by ")
    assert text.endswith(": a typo")
    done = ask(
        "select subject, done from \"Rowbus.Operations\" where action = 'cancel running work' order by began"
    )
    assert done == [(found["message_id"], 1), ("none", 0)]


def test_a_process_that_is_frozen_in_a_transaction_of_its_handler_keeps_nothing_and_commits_nothing(
    rowbus: CommandLine, ask: Ask
) -> None:
    (rowbus.folder / "shop.py").write_text(STEP)
    rowbus("schema", "install", "shop:sales")
    ask("create table effects (process int)")
    first = rowbus.start("run", "shop:sales")
    rowbus("queue", "send", "Sales", "{}", "--type", "Shop.Report")
    first.wait_for("in a step")
    first.tell(signal.SIGSTOP)
    second = rowbus.start("run", "shop:sales", IS_SECOND="1")
    second.wait_for("done")
    first.tell(signal.SIGCONT)
    first.wait_for("another process has it")
    for process in (first, second):
        process.tell(signal.SIGTERM)
        process.wait()

    assert len(ask("select process from effects")) == 1
    assert ask('select 1 from "Sales.Running"') == []


ORDINARY = """
import asyncio
import time
import rowbus

sales = rowbus.Endpoint("Sales", settings=rowbus.EndpointSettings(concurrency=8))

@sales.handler("Shop.Waits")
async def waits(message: dict, context: rowbus.Context):
    await hang(context, asyncio.Event().wait)

@sales.handler("Shop.GoesOn")
async def goes_on(message: dict, context: rowbus.Context):
    await hang(context, on_and_on)

@sales.handler("Shop.Swallows")
async def swallows(message: dict, context: rowbus.Context):
    async def swallow():
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
    await hang(context, swallow)

@sales.handler("Shop.Asks")
async def asks(message: dict, context: rowbus.Context):
    async def ask():
        await context.connection.execute("select pg_sleep(3600)")
    await hang(context, ask)

@sales.handler("Shop.Blocks")
def blocks(message: dict, context: rowbus.SyncContext):
    context.connection.execute("insert into effects values (1)")
    context.send("Sales", {}, type="Shop.Effect")
    print("hanging", flush=True)
    time.sleep(3600)

@sales.handler("Shop.LongBlocks", long=True)
def long_blocks(message: dict, context: rowbus.SyncLongContext):
    context.send("Sales", {}, type="Shop.Effect")
    print("hanging", flush=True)
    time.sleep(3600)

@sales.handler("Shop.LongGoesOn", long=True)
async def long_goes_on(message: dict, context: rowbus.LongContext):
    await context.send("Sales", {}, type="Shop.Effect")
    print("hanging", flush=True)
    await on_and_on()

async def on_and_on():
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            print("going on", flush=True)

async def hang(context, wait):
    await context.connection.execute("insert into effects values (1)")
    await context.send("Sales", {}, type="Shop.Effect")
    print("hanging", flush=True)
    await wait()

@sales.handler("Shop.Effect")
async def effect(message: dict):
    print("half done", flush=True)
"""


KINDS = {
    *("Shop.Asks", "Shop.Blocks", "Shop.GoesOn", "Shop.Swallows", "Shop.Waits"),
    *("Shop.LongBlocks", "Shop.LongGoesOn"),
}


def test_any_handler_is_ended_by_another_process_with_who_and_why_and_nothing_of_it_is_done(
    rowbus: CommandLine, ask: Ask
) -> None:
    (rowbus.folder / "shop.py").write_text(ORDINARY)
    rowbus("schema", "install", "shop:sales")
    ask("create table effects (one int)")
    program = rowbus.start("run", "shop:sales")
    for kind in KINDS:
        rowbus("queue", "send", "Sales", "{}", "--type", kind)
    program.wait_for("hanging", times=len(KINDS))
    found = json.loads(rowbus("running", "list", "--json").stdout)
    cancelled = {
        one["message_id"]: rowbus("running", "cancel", one["message_id"], "--why", "a typo").stdout
        for one in found
    }
    program.wait_for("Moving message", times=len(KINDS))
    again = rowbus("running", "cancel", found[0]["message_id"])
    program.tell(signal.SIGTERM)
    code = program.wait()

    assert {one["types"] for one in found} == KINDS
    assert {one["endpoint"] for one in found} == {"Sales"}
    assert cancelled == {key: f"Cancelled the work of message {key}.\n" for key in cancelled}
    assert again.returncode == 1
    assert code == 0
    errors = [
        text for (text,) in ask("select headers::json ->> 'NServiceBus.ExceptionInfo.Message' from error")
    ]
    assert len(errors) == len(KINDS)
    assert all(text.startswith("Cancelled by ") and text.endswith(": a typo") for text in errors)
    assert ask("select one from effects") == []
    assert not program.tells("half done")
