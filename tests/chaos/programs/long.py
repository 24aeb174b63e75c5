"""An endpoint whose handler takes long: pages in transactions of their own, and a report that it sends at its end.

`rowbus run tests.chaos.programs.long:long`. A page that is there is not written again, as a handler does that another
may have begun; it also notes who has the message, by its row: nobody but this process, or it was too late.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import rowbus
from tests.chaos.programs.effects import found

WORK = 1.0
"""Seconds outside of a transaction, before each page."""
WRITING = 0.3
"""Seconds in one: some of what strikes is to find it open."""
PAGES = ("first page", "second page", "last page")
NOTE = """
    insert into effect (stage, number, process, again, found)
    select %(page)s, %(number)s, %(process)s, true, %(found)s || coalesce(
        (
            select 'a message of ' || row.process from "Long.Running" as row
            where row.headers::jsonb ->> 'NServiceBus.MessageId' = %(message)s
                and row.process not like '%%/' || %(process)s::text
        ), ''
    )
    where not exists (select from effect where stage = %(page)s and number = %(number)s)
"""

# A lost process is a failed attempt of all that it had, and so is the third server in a row that is lost beside a
# message; a run of a hundred strikes has one in nearly every attempt.
policy = rowbus.Recoverability(immediate=1000, delayed=0)
long = rowbus.Endpoint("Long", recoverability=policy)


@long.handler("Chaos.Long", long=True)
async def write(message: dict[str, Any], context: rowbus.LongContext) -> None:
    """Write the pages, and send the report: with the last page, or when the handler has ended."""
    await context.send("Follow", message, type="Chaos.Report")
    for number, page in enumerate(PAGES):
        if number:
            await context.progress(number / len(PAGES), page)
        await asyncio.sleep(WORK)  # long sleep: who is frozen here goes on with the transaction
        async with context.transaction(finish=page == PAGES[-1] and message["number"] % 2 == 0) as step:
            facts = {"page": page, "number": message["number"], "process": os.getpid(), "found": found()}
            await step.connection.execute(NOTE, facts | {"message": context.message_id})
            await asyncio.sleep(WRITING)  # long sleep: what strikes is to find it open
