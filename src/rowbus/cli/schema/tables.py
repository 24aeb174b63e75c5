"""Tables and grants that `rowbus schema` makes: for an endpoint, for queues by name, for the roles of a whole system.

The roles of a system come from a file that says what each is for.

Invariants: making a plan and reading the file touch no database; a key or a name in the file that means nothing is
refused before anything is printed; no purpose includes another's but where its function says so (docs/security.md says
what each can cause).
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer

from rowbus.cli.options import addresses_in, load_endpoint, load_endpoints, queue_addresses
from rowbus.cli.store import StorePlan, store_grants, store_plan, store_table
from rowbus.platform.plug_ins import platform_queues
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.history.table import history_table
from rowbus.transport.operations.discarded.table import discarded_address, discarded_table
from rowbus.transport.operations.table import operations_table
from rowbus.transport.pauses.table import pauses_address, pauses_table
from rowbus.transport.published_contracts.table import contracts_address, contracts_table, publishes
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.owners import guard
from rowbus.transport.queues.reserved_names import COPIES, SERVICECONTROL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rowbus import Endpoint
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.lanes.rule import Lanes
    from rowbus.transport.queues.records.table import OwnTable


SUBSCRIPTIONS = "SubscriptionRouting"

LOG = "log"
LOG_PURPOSES = {"send", "receive", "operate"}
HINT = "--roles"


class Plan(NamedTuple):
    """Tables that are wanted: queues to receive from, queues only to send to, and the extras of all of them."""

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
    lanes: tuple[QueueAddress, Lanes] | None = None
    """The queue of an endpoint that has lanes, and these."""
    contracts: QueueAddress | None = None
    """The table in which an endpoint publishes its contract."""

    @property
    def addresses(self) -> list[QueueAddress]:
        """All queues, each once."""
        return list(dict.fromkeys((*self.inputs, *self.outputs)))

    @property
    def extras(self) -> dict[str, bool]:
        """Extras that are asked for beside the bare tables."""
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
    parts, settings, store = endpoint.parts, endpoint.settings, store_plan(endpoint)
    through = [] if store is None else [store.queue]
    return Plan(
        endpoint.addresses,
        [*parts.inputs, *through, *named],
        [*parts.outputs, *through],
        endpoint.database,
        body_string=settings.body_string or body_string,
        notify_trigger=settings.foreign_notifications or notify_trigger,
        subscriptions=endpoint.subscription_table,
        delayed=parts.delayed,
        store=store,
        own=parts.own_tables,
        platform=platform_queues(settings.service_platform, endpoint.addresses),
        lanes=None if endpoint.lanes is None else (endpoint.address, endpoint.lanes),
        contracts=contracts_address(endpoint.addresses) if publishes(settings, endpoint.addresses) else None,
    )


class Purpose(NamedTuple):
    """The tasks of a role."""

    send: bool = False
    receive: bool = False
    view: bool = False
    operate: bool = False
    servicecontrol: bool = False
    web: bool = False
    history: bool = False


def grants_for(plan: Plan, wanted: Purpose, role: str) -> Iterator[Statement[None]]:
    """Yield the statements that let a role do what is wanted."""
    if wanted.receive:
        yield from _receiving(plan, role)
    if wanted.send:
        yield from _sending(plan, role)
    if wanted.operate:
        yield from _operating(plan, role)
    if wanted.view or wanted.operate:
        yield from _viewing(plan, role)
    if wanted.servicecontrol:
        yield from _watching(plan, role)
    if wanted.web:
        yield from _noting(plan, role, only_looks=wanted.view and not wanted.operate)
    if wanted.history:
        history = history_table(plan.names)
        yield from (*history.create(), *guard([history.address]), history.grant_tell(role))


def _receiving(plan: Plan, role: str) -> Iterator[Statement[None]]:
    """Yield what receives, and for an endpoint all that it does by itself, delayed retries included."""
    catalog = catalog_of(plan.names)
    outputs = [*plan.outputs]
    if plan.delayed is not None or plan.store is not None:
        outputs += plan.inputs  # where delayed retries, and messages delayed by others, come back to
    yield from (catalog.grant_receive(address, role) for address in plan.inputs)
    yield from (catalog.grant_send(address, role) for address in (*outputs, *plan.platform))
    if plan.subscriptions is not None:
        yield subscription_routing(plan.subscriptions).grant(role)
    if plan.delayed is not None:
        yield delayed_table(plan.delayed).grant_move(role)
    if plan.store is not None:
        yield from store_grants(plan.store, role)
    yield from _publishing(plan, role)
    yield from (own.table.grant(role) for own in plan.own)


def _publishing(plan: Plan, role: str, *, only_looks: bool = False) -> Iterator[Statement[None]]:
    """Yield what publishes the contract of an endpoint, or looks at it; before it the table, which no start needs."""
    if plan.contracts is not None:
        table = contracts_table(plan.contracts)
        yield from (*table.create(), *guard([table.address]))
        yield (
            catalog_of(plan.names).grant_view_table(table.address, role) if only_looks else table.grant(role)
        )


def _sending(plan: Plan, role: str) -> Iterator[Statement[None]]:
    """Yield what sends, at once and, to an endpoint, for later."""
    catalog = catalog_of(plan.names)
    yield from (catalog.grant_send(address, role) for address in plan.inputs)
    if plan.delayed is not None:
        yield delayed_table(plan.delayed).grant_store(role)
    yield from (own.sender.grant_keep(role) for own in plan.own if own.sender is not None)


def _operating(plan: Plan, role: str) -> Iterator[Statement[None]]:
    """Yield what takes messages out of queues and puts them back, and changes what waits, recurs or is remembered."""
    catalog = catalog_of(plan.names)
    for address in plan.addresses:
        yield catalog.grant_receive(address, role)
        yield catalog.grant_send(address, role)
    if plan.delayed is not None:
        yield delayed_table(plan.delayed).grant_move(role)
    yield from (own.table.grant(role) for own in plan.own if own.is_viewed)


def _watching(plan: Plan, role: str) -> Iterator[Statement[None]]:
    """Yield what ServiceControl's instances do: receive from queues of their own, retry messages, measure queues."""
    catalog, names = catalog_of(plan.names), plan.names
    theirs = [names.for_endpoint(name) for name in SERVICECONTROL]
    defaults = [names.for_endpoint(name) for name in COPIES]
    copies = plan.outputs if len(plan.outputs) > 1 else [*plan.outputs, *defaults[len(plan.outputs) :]]
    copies = list(dict.fromkeys((*copies, *(one for one in plan.inputs if one.table in COPIES))))
    for address in (*theirs, *copies):
        yield catalog.grant_receive(address, role)
    for address in dict.fromkeys((*theirs, *copies, *plan.inputs)):
        yield catalog.grant_send(address, role)
        yield catalog.grant_monitor(address, role)
    yield subscription_routing(plan.subscriptions or names.for_endpoint(SUBSCRIPTIONS)).grant(role)


def _noting(plan: Plan, role: str, *, only_looks: bool) -> Iterator[Statement[None]]:
    """Yield what notes operations, pauses and history and keeps what is discarded; before it the missing tables.

    Who only looks sees the first three.
    """
    names = plan.names
    looked_at = (
        operations_table(names),
        pauses_table(pauses_address(names)),
        history_table(names),
    )
    tables = (
        looked_at if only_looks else (*looked_at, discarded_table(discarded_address(names)))
    )  # whole messages
    for table in tables:
        yield from table.create()
    yield from guard([table.address for table in tables])
    for table in tables:
        yield (
            catalog_of(plan.names).grant_view_table(table.address, role) if only_looks else table.grant(role)
        )


def _viewing(plan: Plan, role: str) -> Iterator[Statement[None]]:
    """Yield what lists and looks, and judges as `rowbus doctor` does."""
    catalog = catalog_of(plan.names)
    yield from (catalog.grant_view(address, role) for address in plan.addresses)
    store = None if plan.store is None else store_table(plan.store)
    others = (
        plan.subscriptions,
        plan.delayed,
        store,
        *(own.table.address for own in plan.own if own.is_viewed),
    )
    yield from (catalog.grant_view_table(address, role) for address in others if address is not None)
    yield from _publishing(plan, role, only_looks=True)


class RoleGrants(NamedTuple):
    """The purpose of one role: purposes with the tables of each, and what it does with logs."""

    role: str
    grants: list[tuple[Plan, Purpose]]
    log: frozenset[str]


def read_roles(
    file: Path, target: str | None, schema: str | None, database: str | None
) -> Iterator[RoleGrants]:
    """Read a file: a table a role, with a list of endpoints and queues for each purpose.

    Names are those of the system's endpoints; others are queues. Raises BadParameter.
    """
    plans = {} if target is None else _by_name(target, schema, database)
    for role, wanted in _read(file).items():
        if not isinstance(wanted, dict):
            raise typer.BadParameter(f"[{role}] is no table.", param_hint=HINT)
        yield _role(role, cast("dict[str, Any]", wanted), plans, schema, database)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint=HINT) from error


def _by_name(target: str, schema: str | None, database: str | None) -> dict[str, Plan]:
    plans = plans_for(target, None, schema, database)
    return {plan.inputs[0].table: plan for plan in plans}


def _role(
    role: str, wanted: dict[str, Any], plans: Mapping[str, Plan], schema: str | None, database: str | None
) -> RoleGrants:
    unknown = wanted.keys() - {*Purpose._fields, LOG}
    if unknown:
        known = ", ".join((*Purpose._fields, LOG))
        raise typer.BadParameter(f"[{role}] has {min(unknown)!r}, which is none of {known}.", param_hint=HINT)
    names = addresses_in(database, schema)
    log = frozenset(_names(role, LOG, wanted.pop(LOG, [])))
    if log - LOG_PURPOSES:
        raise typer.BadParameter(f"[{role}] log has {min(log - LOG_PURPOSES)!r}.", param_hint=HINT)
    grants = list[tuple[Plan, Purpose]]()
    for purpose, given in wanted.items():
        meant = Purpose(**{purpose: True})
        if given is True:  # for what has no tables of an endpoint's; who only looks, looks at these, too
            among = {key: key in wanted for key in ("view", "operate")}
            grants.append((Plan(names, [], [], database), meant._replace(**among)))
            continue
        for name in _names(role, purpose, given):
            plan = plans.get(name) or Plan(names, queue_addresses([name], names), [], database)
            grants.append((plan, meant))
    return RoleGrants(role, grants, log)


def _names(role: str, key: str, given: object) -> list[str]:
    names = cast("list[object]", given) if isinstance(given, list) else [given]
    if not isinstance(given, list) or not all(isinstance(name, str) for name in names):
        raise typer.BadParameter(f"[{role}] {key} is a list of names.", param_hint=HINT)
    return [str(name) for name in names]
