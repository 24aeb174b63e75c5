"""The endpoint Billing: charges cards, and writes the invoices of what was shipped.

Invariant: a payment row is there if and only if its charge has been answered; a charge that failed leaves nothing.
"""

from __future__ import annotations

import rowbus
from rowbus.demo.messages import (
    BANK_IS_ASKED_AGAIN_AFTER,
    SCHEMA,
    CardCharged,
    CardDeclined,
    ChargeCard,
    OrderShipped,
)
from rowbus.demo.partners import CardRefusedError, Gateway
from rowbus.demo.statements import sql

RETRIES = "NServiceBus.Retries"  # the header that counts delayed retries

RECORD = sql("record_payment")
SETTLE = sql("settle_payment")
FIND_OUTAGE = sql("find_outage")
INVOICE = sql("record_invoice")

endpoint = rowbus.Endpoint(
    "Billing",
    settings=rowbus.EndpointSettings(schema=SCHEMA),
    recoverability=rowbus.Recoverability(delayed=1, increase=BANK_IS_ASKED_AGAIN_AFTER),
)
gateway = Gateway()


@endpoint.handler
async def charge_card(charge: ChargeCard, context: rowbus.Context) -> None:
    """Charge a card and reply what came of it.

    The payment is recorded before the gateway is asked. When the gateway fails, the exception leaves this handler, the
    row is undone, and the message is tried again: five times at once, all of that once more a second later, then it
    goes to the error queue, from where an operator may put it back.
    """
    retries = int(context.headers.get(RETRIES) or 0)
    payment = {
        "order_id": charge.order_id,
        "amount": charge.amount,
        "currency": charge.currency,
        "method": charge.payment.method,
    }
    await context.connection.execute(RECORD, payment)
    try:
        is_down = await _is_down(context, charge.payment.token, retries)
        attempts = await gateway.charge(charge.order_id, charge.payment.token, is_down=is_down)
    except CardRefusedError as refusal:
        await _settle(context, charge.order_id, "declined", attempts=1, retries=retries)
        await context.reply(CardDeclined(charge.order_id, str(refusal)))
    else:
        await _settle(context, charge.order_id, "charged", attempts=attempts, retries=retries)
        await context.reply(CardCharged(charge.order_id))


@endpoint.handler
async def order_shipped(event: OrderShipped, context: rowbus.Context) -> None:
    """Write the invoice of an order that is on its way; having this handler subscribes Billing to the event."""
    await context.connection.execute(INVOICE, {"order_id": event.order_id})


async def _is_down(context: rowbus.Context, token: str, retries: int) -> bool:
    """Say whether the table of outages has the bank of a card as down."""
    cursor = await context.connection.execute(FIND_OUTAGE, {"token": token, "retries": retries})
    return await cursor.fetchone() is not None


async def _settle(context: rowbus.Context, order_id: str, state: str, *, attempts: int, retries: int) -> None:
    answer = {"order_id": order_id, "state": state, "attempts": attempts, "retries": retries}
    await context.connection.execute(SETTLE, answer)
