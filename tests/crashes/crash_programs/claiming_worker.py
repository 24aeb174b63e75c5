"""A worker for the crash tests: sends what it receives on, with a value in the table of claimed values, until killed.

`claiming_worker.py`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import rowbus

sales = rowbus.Endpoint(
    "Sales", settings=rowbus.EndpointSettings(concurrency=2, peek_delay=timedelta(milliseconds=100))
)
sales.use(rowbus.ClaimCheck(properties={"Crash.Scan": ["Scan"]}))


@sales.handler("Crash.Scan")
async def scan(message: dict[str, Any], context: rowbus.Context) -> None:
    """Send the scan on, backwards."""
    await context.send("Archive", {**message, "Scan": message["Scan"][::-1]}, type="Crash.Scan")


sales.run()
