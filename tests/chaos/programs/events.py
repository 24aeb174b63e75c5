"""The consumer of a run, exactly once: its notes are in the transaction of its position.

`rowbus run tests.chaos.programs.events:log`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import rowbus
from tests.chaos.programs.deeds import do, take_poison
from tests.chaos.programs.effects import note

POOLED = os.environ.get("CHAOS_POOLED") == "1"

log = rowbus.Log(None, "chaos")
settings = rowbus.ConsumerSettings(
    chunk_size=50,
    from_oldest=True,
    retry_delay=timedelta(seconds=1),
    max_retries=2,
    notifications=not POOLED,
    prepared_statements=not POOLED,
    stand_by=not POOLED,
)


@log.consumer("effects", settings=settings)
async def handle(event: rowbus.Event, context: rowbus.LogContext) -> None:
    """Note it."""
    message: Any = event.json()
    if await take_poison(context, message):
        return
    if "deed" not in message:
        await note(context, "event", message, again=bool(event.retry))
        return
    await note(context, "event of a deed", message)
    await do(context, message, is_retried=bool(event.retry))
