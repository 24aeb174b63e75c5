"""The endpoints of the installation that docs/privileges.md describes."""

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


keeper = rowbus.Endpoint(
    "Keeper", delayed_delivery=DelayedDeliverySettings(rowbus.PostgresDelayedMessageStore())
)
