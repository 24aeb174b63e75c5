"""An endpoint before it starts: its parts, and what follows from them.

Invariant: values only; no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.messages.headers import Identity
from rowbus.platform.plug_ins import saga_audit_queue
from rowbus.running.critical import Alarm
from rowbus.running.host import this_host
from rowbus.settings import NativeDelayedDelivery, host_digits
from rowbus.transport.claims.claim_check import ClaimCheck
from rowbus.transport.claims.table import own_values
from rowbus.transport.deduplication.table import inbox_address, own_inbox
from rowbus.transport.delayed.table import delayed_address
from rowbus.transport.limits.rate import RateLimit, limits_address
from rowbus.transport.limits.table import own_limits
from rowbus.transport.long_work.table import long_work_address, own_long_work
from rowbus.transport.recurring.table import own_schedules, recurring_address
from rowbus.transport.uniqueness.table import own_claims, unique_address

if TYPE_CHECKING:
    from rowbus.endpoint.handlers import Component, Handlers
    from rowbus.endpoint.recurring_message import RecurringMessage
    from rowbus.endpoint.sender import Routes
    from rowbus.endpoint.steps.chain import Step
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.mutators import Mutator
    from rowbus.platform.checks import Check
    from rowbus.running.critical import OnCriticalError
    from rowbus.settings import EndpointSettings
    from rowbus.transport.delayed_store.protocol import DelayedDelivery
    from rowbus.transport.lanes.rule import Lanes
    from rowbus.transport.queues.records.table import OwnTable
    from rowbus.transport.recoverability.policy import Observer, Recoverability


class Parts(NamedTuple):
    """The parts of an endpoint before it starts; `instance` is this instance's own queue, if it has one."""

    name: str
    settings: EndpointSettings
    addresses: Addresses
    address: QueueAddress
    instance: QueueAddress | None
    error_queue: QueueAddress
    audit_queue: QueueAddress | None
    subscriptions: QueueAddress
    handlers: Handlers
    routes: Routes
    policy: Recoverability
    on_critical_error: OnCriticalError
    delayed_delivery: DelayedDelivery = None
    steps: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()
    components: tuple[Component, ...] = ()
    recurring: tuple[RecurringMessage, ...] = ()
    mutators: tuple[Mutator, ...] = ()
    limit: RateLimit | None = None
    observers: tuple[Observer, ...] = ()
    lanes: Lanes | None = None

    @property
    def identity(self) -> Identity:
        """The identity of the endpoint in this process."""
        settings = self.settings
        host_id = None if settings.host_id is None else host_digits(settings.host_id)
        host = this_host(
            self.name, machine=settings.host_name, display_name=settings.host_display_name, host_id=host_id
        )
        return Identity(self.name, *host)

    @property
    def inbox(self) -> QueueAddress | None:
        """The table of the messages that it has processed, if it removes duplicates."""
        remembers = self.settings.deduplicate_for is not None
        return inbox_address(self.name, self.addresses) if remembers else None

    @property
    def own_tables(self) -> list[OwnTable]:
        """Its tables beside those of messages and subscriptions."""
        inbox = [] if self.inbox is None else [own_inbox(self.inbox)]
        schedules = [] if self.schedules is None else [own_schedules(self.schedules)]
        values = [own_values(address) for address in self.claimed_values]
        limits = [] if self.limits is None else [own_limits(self.limits)]
        long = [] if self.long_work is None else [own_long_work(self.long_work)]
        claims = [] if self.unique is None else [own_claims(self.unique)]
        sagas = (table for each in self.components for table in each.tables)
        return [*inbox, *sagas, *schedules, *limits, *long, *claims, *values]

    @property
    def claimed_values(self) -> list[QueueAddress]:
        """The tables in which values of its messages are."""
        tables = (mutator.address for mutator in self.mutators if isinstance(mutator, ClaimCheck))
        return list(dict.fromkeys(table for table in tables if table is not None))

    @property
    def can_delay(self) -> bool:
        """Whether there is a place where its messages wait that are sent with a delay."""
        return self.delayed_delivery is not None

    @property
    def delayed(self) -> QueueAddress | None:
        """Its own table of delayed messages, if it has one."""
        native = self.delayed_delivery
        return (
            delayed_address(self.name, native, self.addresses)
            if isinstance(native, NativeDelayedDelivery)
            else None
        )

    @property
    def schedules(self) -> QueueAddress | None:
        """The table of the schedules of its recurring messages, if it has some."""
        return recurring_address(self.name, self.addresses) if self.recurring else None

    @property
    def long_work(self) -> QueueAddress | None:
        """The table of its running work, if a handler takes long. Raises ConfigurationError on SQL Server."""
        return long_work_address(self.name, self.addresses) if self.handlers.has_long else None

    @property
    def unique(self) -> QueueAddress | None:
        """The table of its queue's unique messages, if it takes some. Raises ConfigurationError where it cannot."""
        if not self.settings.takes_unique:
            return None
        delayed = self.address.satellite(DEFAULT_DELAYED_SUFFIX)
        if self.lanes is not None or self.delayed != delayed:
            raise ConfigurationError(
                f"Endpoint {self.name} cannot take unique messages: they wait in its queue or in {delayed}, and so it "
                "can have no lanes, no store of delayed messages, and no other table of them."
            )
        return unique_address(self.address)

    @property
    def limits(self) -> QueueAddress | None:
        """The table of its rate limits, if it or a handler has one. Raises ConfigurationError on SQL Server."""
        has_some = self.limit is not None or bool(self.handlers.limited(RateLimit))
        return limits_address(self.name, self.addresses) if has_some else None

    @property
    def alarm(self) -> Alarm:
        """The alarm of the endpoint's services."""
        return Alarm(self.on_critical_error, self.settings.time_to_trigger_circuit_breaker)

    @property
    def inputs(self) -> list[QueueAddress]:
        """The queues received from."""
        return [*self.queues, *self.lane_addresses]

    @property
    def queues(self) -> list[QueueAddress]:
        """Those of them that are no lanes."""
        return [self.address] if self.instance is None else [self.address, self.instance]

    @property
    def lane_addresses(self) -> list[QueueAddress]:
        """The queues of its lanes."""
        return [] if self.lanes is None else self.lanes.addresses(self.address)

    @property
    def saga_audit(self) -> QueueAddress | None:
        """The queue in which ServiceControl hears of its sagas, if it has some and service_platform asks for it."""
        return saga_audit_queue(self.settings.service_platform, self.addresses) if self.components else None

    @property
    def outputs(self) -> list[QueueAddress]:
        """The queues that it sends to besides those of its handlers."""
        queues = (self.error_queue, self.audit_queue, self.saga_audit)
        return list(dict.fromkeys(queue for queue in queues if queue is not None))
