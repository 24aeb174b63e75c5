"""A worker for the crash tests of delayed message stores: stores what comes to Sales.Timeouts and forwards what is due.

`delayed_store_worker.py DSN_OF_THE_STORE`, or without it for a store in the queues' database, which is that of
ROWBUS_DATABASE.
"""

from __future__ import annotations

import sys

import rowbus
from rowbus.cli.output import show_logs

store = rowbus.PostgresDelayedMessageStore(sys.argv[1] if len(sys.argv) > 1 else None)
settings = rowbus.DelayedDeliverySettings(store, number_of_retries=5)
sales = rowbus.Endpoint("Sales", delayed_delivery=settings, settings=rowbus.EndpointSettings(concurrency=2))


@sales.handler("Shop.NeverSent")
async def ignore(_message: dict[str, object]) -> None:
    """Make it an endpoint that may run: it needs a handler."""


if __name__ == "__main__":
    show_logs(0)
    sales.run()
