"""The mutators of an endpoint at work on what it receives: before its steps, after the built-in ones.

Invariant: a delivery leaves as it came, but for what steps and handlers did to its headers: its copy in the audit
queue can be read by those who could read the message.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rowbus.messages.mutators import with_changes
from rowbus.running.turns import onto_loop
from rowbus.transport.claims.claim_check import off_the_wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.messages.mutators import Mutator
    from rowbus.transport.receiving.delivery import Delivery, OnMessage


def with_mutators(proceed: OnMessage, mutators: Sequence[Mutator]) -> OnMessage:
    """Return what processes a message as the mutators change it; without any, `proceed` itself."""
    return partial(_process, proceed, tuple(mutators)) if mutators else proceed


async def _process(proceed: OnMessage, mutators: Sequence[Mutator], delivery: Delivery) -> None:
    """Process a message as it is off the wire; raises what a mutator raises, and what processing it raises."""
    await onto_loop()
    headers, body = delivery.headers, delivery.body
    given = dict(headers)
    delivery.body = await off_the_wire(given, body, mutators, delivery)
    delivery.headers = dict(given)
    try:
        await proceed(delivery)
    finally:
        delivery.headers = with_changes(headers, given, delivery.headers)
        delivery.body = body
