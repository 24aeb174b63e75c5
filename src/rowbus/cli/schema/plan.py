"""The tables of a `rowbus schema` command: those of an endpoint, or queues given by name.

Invariant: making a plan touches no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import typer

from rowbus.cli.schema.store import StorePlan, store_plan
from rowbus.cli.target import addresses_in, load_endpoint, load_endpoints, queue_addresses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus import Endpoint
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.queues.records.table import OwnTable


class Plan(NamedTuple):
    """What is wanted: queues to receive from, queues only to send to, and the extras of all of them."""

    names: Addresses
    inputs: list[QueueAddress]
    outputs: list[QueueAddress]
    database: str | None
    body_string: bool = False
    notify_trigger: bool = False
    subscriptions: QueueAddress | None = None
    """An endpoint's table of subscriptions."""
    delayed: QueueAddress | None = None
    """An endpoint's table of delayed messages."""
    store: StorePlan | None = None
    """An endpoint's store of delayed messages."""
    own: Sequence[OwnTable] = ()
    """An endpoint's other tables: of processed messages, of its sagas, of its schedules."""
    platform: tuple[QueueAddress, ...] = ()
    """ServiceControl's queues that an endpoint sends to."""

    @property
    def addresses(self) -> list[QueueAddress]:
        """All queues, each once."""
        return list(dict.fromkeys((*self.inputs, *self.outputs)))

    @property
    def extras(self) -> dict[str, bool]:
        """What is asked for beside the bare tables."""
        return {"body_string": self.body_string, "notify_trigger": self.notify_trigger}


def plans_for(
    target: str | None,
    queues: list[str] | None,
    schema: str | None,
    database: str | None,
    *,
    body_string: bool = False,
    notify_trigger: bool = False,
    required: bool = True,
) -> list[Plan]:
    """Return what an endpoint, each endpoint of a module, or queues given by name, ask for.

    Where required, at least one must be there.
    """
    extras = (body_string, notify_trigger)
    if target is None:
        names = addresses_in(database, schema)
        if not queues and required:
            raise typer.BadParameter("say which queues: --queue NAME, or MODULE:ENDPOINT.")
        return [Plan(names, queue_addresses(queues or (), names), [], database, *extras)]
    endpoints = [load_endpoint(target)] if ":" in target else load_endpoints(target)
    return [_endpoint_plan(endpoint, queues, schema, database, extras) for endpoint in endpoints]


def _endpoint_plan(
    endpoint: Endpoint,
    queues: list[str] | None,
    schema: str | None,
    database: str | None,
    extras: tuple[bool, bool],
) -> Plan:
    body_string, notify_trigger = extras
    endpoint.database = database or endpoint.database
    named = queue_addresses(queues or (), addresses_in(endpoint.database, schema))
    settings, store = endpoint.settings, store_plan(endpoint)
    through = [] if store is None else [store.queue]
    return Plan(
        endpoint.addresses,
        [*endpoint.input_addresses(), *through, *named],
        [*endpoint.output_addresses(), *through],
        endpoint.database,
        body_string=settings.body_string or body_string,
        notify_trigger=settings.foreign_notifications or notify_trigger,
        subscriptions=endpoint.subscription_table,
        delayed=endpoint.delayed_table,
        store=store,
        own=endpoint.own_tables,
        platform=endpoint.platform_queues,
    )
