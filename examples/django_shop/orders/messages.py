"""The shop's messages."""

from __future__ import annotations

from dataclasses import dataclass

import rowbus


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    """Sent by the web application with the order's row."""

    order_id: str


@rowbus.command("Shop.SendInvoice")
@dataclass
class SendInvoice:
    """Sent when an order was placed."""

    order_id: str
