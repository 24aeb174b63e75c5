"""How handlers note what they did: a row in the transaction of their message, which may be there twice."""

from __future__ import annotations

import os
import signal
from typing import Any

import rowbus

NOTE = "insert into effect (stage, number, process, due, again) values (%s, %s, %s, %s, %s)"
NEXT = "select clock_timestamp() + interval '500 milliseconds'"  # when a follow-up that is sent with a delay is due
END_SESSION = "select pg_terminate_backend(pg_backend_pid())"


async def note(
    context: rowbus.Context | rowbus.LogContext,
    stage: str,
    message: dict[str, Any],
    *,
    again: bool = False,
    due: str | None = None,
) -> None:
    """Note an effect; the database says when."""
    await context.connection.execute(NOTE, (stage, message["number"], os.getpid(), due, again))


async def take_poison(context: rowbus.Context | rowbus.LogContext, message: dict[str, Any]) -> None:
    """Do what the message has its handler do: end its session, its process, or fail."""
    poison = message.get("poison")
    if poison == "connection":
        await context.connection.execute(END_SESSION)
    elif poison == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    elif poison == "error":
        raise ValueError(f"{message['number']} always fails")
