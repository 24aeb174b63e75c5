"""The endpoint Billing: charges cards.

Invariant: a payment row is there if and only if its charge has been answered; a charge that failed leaves nothing.
"""

from __future__ import annotations

import rowbus
from rowbus.demo.gateway import CardRefusedError, Gateway
from rowbus.demo.messages import SCHEMA, CardCharged, CardDeclined, ChargeCard
from rowbus.demo.statements import sql

RECORD = sql("record_payment")
SETTLE = sql("settle_payment")

endpoint = rowbus.Endpoint(
    "Billing",
    settings=rowbus.EndpointSettings(schema=SCHEMA),
    recoverability=rowbus.Recoverability(delayed=0),  # a demonstration does not wait for a minute
)
gateway = Gateway()


@endpoint.handler
async def charge_card(charge: ChargeCard, context: rowbus.Context) -> None:
    """Charge a card and reply what came of it.

    The payment is recorded before the gateway is asked. When the gateway fails, the exception leaves this handler, the
    row is undone, and the message is tried again: five times at once, then it goes to the error queue.
    """
    payment = {
        "order_id": charge.order_id,
        "amount": charge.amount,
        "currency": charge.currency,
        "method": charge.payment.method,
    }
    await context.connection.execute(RECORD, payment)
    try:
        attempts = await gateway.charge(charge.order_id, charge.payment.token)
    except CardRefusedError as refusal:
        await _settle(context, charge.order_id, "declined", 1)
        await context.reply(CardDeclined(charge.order_id, str(refusal)))
    else:
        await _settle(context, charge.order_id, "charged", attempts)
        await context.reply(CardCharged(charge.order_id))


async def _settle(context: rowbus.Context, order_id: str, state: str, attempts: int) -> None:
    answer = {"order_id": order_id, "state": state, "attempts": attempts}
    await context.connection.execute(SETTLE, answer)
