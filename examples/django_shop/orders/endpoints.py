"""The shop's messages and its endpoint; `python manage.py rowbus run` finds it here."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F

import rowbus
import rowbus.django
from orders.models import Order, Stock

logger = logging.getLogger("rowbus.shop")
sales = rowbus.django.Endpoint("Sales", recoverability=rowbus.Recoverability(immediate=1, delayed=0))


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


@sales.handler
def place_order(message: PlaceOrder, context: rowbus.SyncContext) -> None:
    """Take every line from the stock; what was taken before one that is missing is put back by the failure."""
    order = Order.objects.select_for_update().get(pk=message.order_id)
    Order.objects.filter(pk=order.pk).update(state="placed")
    for item, quantity in sorted(order.lines.items()):
        if not Stock.objects.filter(pk=item, left__gte=quantity).update(left=F("left") - quantity):
            raise LookupError(f"too few of {item} for order {order.pk}")
    context.send_local(SendInvoice(order.pk))


@sales.handler
def send_invoice(message: SendInvoice) -> None:
    """Say in the log that the invoice is out, once that is committed."""
    with transaction.atomic():
        order = Order.objects.get(pk=message.order_id)
        order.state = f"invoiced {sum(order.lines.values())} items"
        order.save()
    transaction.on_commit(
        lambda: logger.info("Order %s is %s", order.pk, Order.objects.get(pk=order.pk).state)
    )
