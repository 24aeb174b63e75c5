"""Effects of handlers, as they note them: a row in the transaction of their message, maybe there twice.

A row says as well what its handler found that another had left: the role of the session, by the table's default, and
context variables.
"""

from __future__ import annotations

import decimal
import os
from contextvars import ContextVar
from typing import Any

import rowbus

NOTE = "insert into effect (stage, number, process, due, again, found) values (%s, %s, %s, %s, %s, %s)"
NEXT = "select clock_timestamp() + interval '500 milliseconds'"  # when a follow-up that is sent with a delay is due

tenant: ContextVar[str] = ContextVar("tenant", default="")
"""Settings that some handlers make for themselves."""


async def note(
    context: rowbus.Context | rowbus.LogContext,
    stage: str,
    message: dict[str, Any],
    *,
    again: bool = False,
    due: str | None = None,
) -> None:
    """Note an effect; the database says when."""
    values = (stage, message["number"], os.getpid(), due, again, found())
    await context.connection.execute(NOTE, values)


def found() -> str:
    """Name what another handler has left in the context variables of this one."""
    precision = decimal.getcontext().prec
    left = {"tenant": tenant.get(), "precision": precision if precision != decimal.DefaultContext.prec else 0}
    return " ".join(f"{name} {value}" for name, value in left.items() if value)
