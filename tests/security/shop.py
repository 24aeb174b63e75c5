"""The endpoints of the installation that docs/privileges.md describes; `walker` has every table that one can have."""

from __future__ import annotations

from datetime import timedelta

import rowbus
from rowbus.transport.delayed_store.protocol import DelayedDeliverySettings

sales = rowbus.Endpoint(
    "Sales",
    settings=rowbus.EndpointSettings(audit_queue="audit", deduplicate_for=timedelta(hours=1)),
)
sales.use(rowbus.ClaimCheck())


sales.limit("10/second")


@sales.every(timedelta(hours=1), type="Shop.Hourly")
def hourly() -> dict[str, str]:
    """Make the message of an hour."""
    return {}


walker = rowbus.Endpoint(
    "Sales", settings=rowbus.EndpointSettings(takes_unique=True, deduplicate_for=timedelta(hours=1))
)
walker.use(rowbus.ClaimCheck())
walker.limit("10/second")


@walker.handler("Shop.Pack", long=True)
async def pack(message: dict[str, object]) -> None:
    """Have a table of running work."""


keeper = rowbus.Endpoint(
    "Keeper", delayed_delivery=DelayedDeliverySettings(rowbus.PostgresDelayedMessageStore())
)
