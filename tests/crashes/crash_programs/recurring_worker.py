"""A worker for the crash tests of recurring messages: each tick is a row. Nothing keeps a row from being written twice.

`recurring_worker.py SECONDS`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Any

import rowbus

work = rowbus.Endpoint("Work", settings=rowbus.EndpointSettings(peek_delay=timedelta(milliseconds=100)))


@work.every(timedelta(seconds=float(sys.argv[1])), type="Crash.Tick")
def tick(due: datetime) -> dict[str, Any]:
    """Make the message of a tick."""
    return {"due": due.isoformat()}


@work.handler("Crash.Tick")
async def handle(message: dict[str, Any], context: rowbus.Context) -> None:
    """Write the row."""
    await context.connection.execute("insert into ticked (due) values (%s)", (message["due"],))


if __name__ == "__main__":
    work.run()
