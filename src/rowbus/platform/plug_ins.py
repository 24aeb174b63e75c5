"""The parts that an endpoint runs for the platform: heartbeats, checks, metrics, as far as they are asked for.

Invariant: without a connection there is nothing: no service, no step, no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.messages.address import address_of
from rowbus.platform.checks import CheckService
from rowbus.platform.heartbeats import Heartbeats
from rowbus.platform.meter import Meter
from rowbus.platform.reports import Reporter
from rowbus.platform.servicecontrol import Metrics, Outbox, logger, platform_connection
from rowbus.running.host import this_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.database.sessions import Database
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.platform.checks import Check
    from rowbus.platform.servicecontrol import Platform, PlatformConnection
    from rowbus.running.service import Service
    from rowbus.transport.receiving.dispatcher import Dispatcher


class PlugIns:
    """The plug-ins of one endpoint, which its parts describe."""

    def __init__(
        self,
        platform: Platform | None,
        checks: Sequence[Check],
        addresses: Addresses,
        *,
        identity: Identity,
        address: QueueAddress,
        dispatcher: Dispatcher,
        database: Database,
    ) -> None:
        """Make what `platform` asks for; raises as `check_platform`. No I/O."""
        self.meter: Meter | None = None
        self.services: list[Service] = []
        if platform is None:
            if checks:
                logger.info("%s has checks, and no service_platform to report them to", identity.endpoint)
            return
        connection = platform_connection(platform)
        self.meter = Meter() if connection.metrics is not None else None
        self._reporter = Reporter(identity, address)
        self._address = address
        self._addresses = addresses
        self._dispatcher = dispatcher
        self._database = database
        self.services = list(self._services(connection, checks))

    def _services(self, connection: PlatformConnection, checks: Sequence[Check]) -> Iterator[Service]:
        if connection.heartbeats is not None:
            outbox = self._outbox(connection.heartbeats.queue)
            yield Heartbeats(outbox, self._reporter, connection.heartbeats, this_process(), self._database)
        if connection.checks is not None:
            outbox = self._outbox(connection.checks)
            yield from (CheckService(outbox, self._reporter, check) for check in checks)
        if connection.metrics is not None and self.meter is not None:
            outbox = self._outbox(connection.metrics.queue)
            yield Metrics(outbox, self._reporter, connection.metrics, self.meter, self._address)

    def _outbox(self, queue: str) -> Outbox:
        return Outbox(self._dispatcher, address_of(queue, self._addresses))


def check_platform(platform: Platform | None, addresses: Addresses) -> None:
    """Raise ConfigurationError for JSON that is not ServiceControl's, or whose queues cannot be in this database."""
    platform_queues(platform, addresses)
    saga_audit_queue(platform, addresses)


def saga_audit_queue(platform: Platform | None, addresses: Addresses) -> QueueAddress | None:
    """Return where changes of sagas are told, None for nowhere; raises ConfigurationError as `check_platform`."""
    queue = None if platform is None else platform_connection(platform).saga_audit
    return None if queue is None else address_of(queue, addresses)


def platform_queues(platform: Platform | None, addresses: Addresses) -> tuple[QueueAddress, ...]:
    """Return ServiceControl's queues that are sent to, each once; raises ConfigurationError as `check_platform`."""
    if platform is None:
        return ()
    connection = platform_connection(platform)
    queues = [part.queue for part in (connection.heartbeats, connection.metrics) if part is not None]
    if connection.checks is not None:
        queues.append(connection.checks)
    return tuple(dict.fromkeys(address_of(queue, addresses) for queue in queues))
