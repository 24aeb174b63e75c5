"""The endpoints of a run: Work, and Follow, to which it sends; both subscribe to what is published. Aside is a fault's.

`rowbus run tests.chaos.programs.endpoints:work --workers 2`, with the database in ROWBUS_DATABASE and, behind a pooler
in transaction mode, CHAOS_POOLED=1; CHAOS_PEEK is how many seconds an idle endpoint waits that hears nothing.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import Any

import rowbus
from rowbus.messages.headers import Header
from tests.chaos.programs.deeds import IN_THREADS, do, take_poison
from tests.chaos.programs.effects import NEXT, note
from tests.chaos.programs.processes import Process

POOLED = os.environ.get("CHAOS_POOLED") == "1"

PEEK = timedelta(seconds=float(os.environ.get("CHAOS_PEEK", "1")))

settings = rowbus.EndpointSettings(
    concurrency=2, peek_delay=PEEK, notifications=not POOLED, prepared_statements=not POOLED
)
policy = rowbus.Recoverability(immediate=2, delayed=1, increase=timedelta(seconds=1))
work = rowbus.Endpoint("Work", settings=settings, recoverability=policy)
follow = rowbus.Endpoint("Follow", settings=settings, recoverability=policy)
aside = rowbus.Endpoint("Aside", settings=settings, recoverability=policy)
work.add(Process)


@work.handler("Chaos.Command")
async def command(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it, send a follow-up and a reply; perhaps it takes its time."""
    if await take_poison(context, message):
        return
    await asyncio.sleep(message.get("seconds", 0.0))
    await note(context, "command", message)
    await context.send("Follow", message, type="Chaos.FollowUp")
    await context.reply(message, type="Chaos.Reply")


@work.handler("Chaos.Delayed")
async def delayed(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it, and send a follow-up that is to wait; its due time is counted from before the send."""
    await note(context, "delayed", message, due=message["due"])
    row = await (await context.connection.execute(NEXT)).fetchone()
    assert row is not None
    following = message | {"due": row[0].isoformat()}
    await context.send("Follow", following, type="Chaos.DelayedFollowUp", delay=timedelta(milliseconds=500))


@work.handler("Chaos.Retried")
async def retried(message: dict[str, Any], context: rowbus.Context) -> None:
    """Fail until there has been a delayed retry, after a note and a send, which must not stay."""
    await note(context, "retried", message)
    await context.send("Follow", message, type="Chaos.Nothing")
    if not context.headers.get(Header.RETRIES):
        raise ValueError("not before a delayed retry")


@work.handler("Chaos.Published", subscribe=True)
async def first_subscriber(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it; perhaps it takes its time."""
    await asyncio.sleep(message.get("seconds", 0.0))
    await note(context, "first subscriber", message)


@follow.handler("Chaos.Published", subscribe=True)
async def second_subscriber(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it; perhaps it takes its time."""
    await asyncio.sleep(message.get("seconds", 0.0))
    await note(context, "second subscriber", message)


@follow.handler("Chaos.FollowUp")
async def follow_up(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it."""
    await note(context, "follow-up", message)


@follow.handler("Chaos.Reply")
async def reply(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it."""
    await note(context, "reply", message)


@follow.handler("Chaos.DelayedFollowUp")
async def delayed_follow_up(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it."""
    await note(context, "delayed follow-up", message, due=message["due"])


@follow.handler("Chaos.Nothing")
async def nothing(message: dict[str, Any], context: rowbus.Context) -> None:
    """Take what the retried message sent; once, for the attempt that was not undone."""
    await note(context, "follow-up of the retried", message)


@follow.handler("Chaos.Report")
async def report(message: dict[str, Any], context: rowbus.Context) -> None:
    """Take what a handler that takes long has sent at its end."""
    await note(context, "report", message)


# ------------------------------------------------------------------------------------------ what faults send themselves


@work.handler("Chaos.Deed")
async def deed(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it, do what one should not, and send a follow-up."""
    await note(context, "deed", message)
    await do(context, message, is_retried=bool(context.headers.get(Header.RETRIES)))
    await context.send("Follow", message, type="Chaos.FollowUpOfDeed")


@work.handler("Chaos.InThread")
def deed_in_a_thread(message: dict[str, Any], context: rowbus.SyncContext) -> None:
    """Do in a thread what one should not."""
    IN_THREADS[message["poison"]](context)


@work.handler("Chaos.Aside")
async def send_aside(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it, and send to a queue that may be locked."""
    await note(context, "aside", message)
    await context.send("Aside", message, type="Chaos.Arrival")


@aside.handler("Chaos.Arrival")
async def arrive(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it."""
    await note(context, "arrival", message)


@follow.handler("Chaos.FollowUpOfDeed")
async def follow_up_of_deed(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it."""
    await note(context, "follow-up of the deed", message)
