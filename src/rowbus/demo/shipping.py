"""The endpoint Shipping: books parcels with the carrier.

Invariant: a shipment and the event about it commit together.
"""

from __future__ import annotations

import rowbus
from rowbus.demo.messages import SCHEMA, OrderShipped, ShipOrder
from rowbus.demo.partners import book_parcel
from rowbus.demo.statements import sql

RECORD = sql("record_shipment")

endpoint = rowbus.Endpoint(
    "Shipping",
    settings=rowbus.EndpointSettings(schema=SCHEMA),
    recoverability=rowbus.Recoverability(delayed=0),  # a demonstration does not wait for a minute
)


@endpoint.handler
async def ship_order(order: ShipOrder, context: rowbus.Context) -> None:
    """Book a parcel and publish that; a country without a carrier is not tried again.

    Shipping does not know its subscribers. Each subscriber gets a copy, in the transaction that records the shipment.
    """
    tracking = book_parcel(order.order_id, order.country)
    shipment = {"order_id": order.order_id, "country": order.country, "tracking": tracking}
    await context.connection.execute(RECORD, shipment)
    await context.publish(OrderShipped(order.order_id, tracking))
