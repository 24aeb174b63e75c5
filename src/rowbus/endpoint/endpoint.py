"""An endpoint: a named queue, the handlers of its messages, and the process that serves them.

Invariant: nothing touches the database before `start`, and after `stop` nothing is left running.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rowbus.database.backends import addresses_of, open_database
from rowbus.database.location import DATABASE_VARIABLE, is_temporary, resolve_dsn
from rowbus.endpoint.delayed_delivery import require_delayed_delivery, table_suffix
from rowbus.endpoint.handlers import Handlers
from rowbus.endpoint.installation import change_lanes, install_only
from rowbus.endpoint.parts import Parts
from rowbus.endpoint.provision import Provision
from rowbus.endpoint.recovery import default_policy, require_policy, require_possible
from rowbus.endpoint.recurring_message import RecurringMessage, recurring_message
from rowbus.endpoint.running import RunningEndpoint
from rowbus.endpoint.sender import Routes
from rowbus.endpoint.sending import Sending
from rowbus.endpoint.steps.chain import Step, checked
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress, address_of
from rowbus.messages.bodies.serializer import Serializers
from rowbus.messages.message_types import DEFAULT
from rowbus.messages.mutators import Mutator, bound_mutators, checked_mutator
from rowbus.platform.checks import made_check
from rowbus.platform.plug_ins import check_platform
from rowbus.running.critical import callback_of
from rowbus.running.functions import check_function
from rowbus.running.scope import beginning
from rowbus.running.service import Lifetime
from rowbus.running.setting_types import require_type
from rowbus.running.signals import Serving
from rowbus.settings import EndpointSettings, NativeDelayedDelivery, TransactionMode, check_time_limit
from rowbus.transport.lanes.rule import require_lanes
from rowbus.transport.limits.rate import RateLimit
from rowbus.transport.queues.destination_rule import destination_rule
from rowbus.transport.queues.reserved_names import check_endpoint_name
from rowbus.transport.recoverability.policy import Observer, Recoverability, Retries
from rowbus.transport.recurring.schedule import CatchUp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta
    from typing import Concatenate

    from rowbus.contracts.describing import Collection
    from rowbus.database.sessions import Database
    from rowbus.endpoint.handlers import Addition, Component
    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.platform.checks import Check
    from rowbus.running.critical import OnCriticalError
    from rowbus.transport.delayed_store.protocol import DelayedDelivery
    from rowbus.transport.lanes.rule import Lanes
    from rowbus.transport.limits.concurrency import Limit
    from rowbus.transport.receiving.receiver import Receiver

logger = logging.getLogger("rowbus.endpoint")

NATIVE = NativeDelayedDelivery()

H = TypeVar(
    "H", bound="Callable[Concatenate[Any, ...], Awaitable[None]] | Callable[Concatenate[Any, ...], None]"
)  # a handler, returned as it was
F = TypeVar("F", bound="Callable[..., Any]")  # what makes a recurring message, likewise
S = TypeVar("S", bound=Step | Mutator)  # likewise
V = TypeVar("V", bound=Observer)  # likewise


class Endpoint(Serving, Sending, Provision):
    """A named endpoint of a system that speaks through one database.

    ```python
    sales = Endpoint("Sales", database="postgresql://…")


    @sales.handler
    async def place_order(message: PlaceOrder, context: Context) -> None: ...


    sales.run()
    ```
    """

    def __init__(
        self,
        name: str,
        *,
        database: str | None = None,
        settings: EndpointSettings | None = None,
        recoverability: Recoverability | None = None,
        delayed_delivery: DelayedDelivery = NATIVE,
        on_critical_error: OnCriticalError | None = None,
        serializers: Sequence[Serializer] = (DEFAULT,),
        lanes: Lanes | None = None,
    ) -> None:
        """Describe the endpoint; no I/O.

        `database` is a libpq connection string, or SQL Server's `mssql://user:password@host:1433/catalog`; none given,
        the environment variable ROWBUS_DATABASE as it is now, else the embedded server.
        `recoverability` defaults to 5 immediate and 3 delayed retries (mode NONE: none), then the error queue.
        `delayed_delivery` says where messages wait that are sent with a delay: by default in the endpoint's own table;
        with `DelayedDeliverySettings` in a store; None: nowhere, and a delay is an error.
        `on_critical_error(text, error)` is called, once for each outage, when receiving, or another service
        of the endpoint, has failed for long.
        `serializers` are for the content types of the messages received; the first one writes what is sent, and reads
        what none of them is for. `lanes` are further queues of its own: see `by_key`, `by_priority` and `fair`.
        Raises InvalidAddressError for names that are too long or ambiguous, and ConfigurationError.
        """
        require_type("name", name, str, "text")
        require_type("settings", settings, EndpointSettings | None, "rowbus.EndpointSettings(…)")
        require_delayed_delivery(delayed_delivery)
        self.name = name
        self.settings = settings or EndpointSettings()
        self.delayed_delivery = delayed_delivery
        self._components: list[Component] = []
        self._lifetime: Lifetime[RunningEndpoint] = Lifetime(self)
        self.database = database
        mode, can_delay = self.settings.transaction_mode, delayed_delivery is not None
        self._policy = require_policy(recoverability or default_policy(mode, can_delay=can_delay))
        require_possible(self._policy, mode, can_delay=can_delay)
        self._on_critical_error = callback_of(on_critical_error, logger)
        self._handlers = Handlers(Serializers(serializers), self.settings.time_limit)
        self._routes = Routes()
        self._steps: list[Step] = []
        self._mutators: list[Mutator] = []
        self._observers: list[Observer] = []
        self._checks: dict[str, Check] = {}
        self._recurring: dict[str, RecurringMessage] = {}
        self._limit: RateLimit | None = None
        self.lanes = require_lanes(lanes)

    @overload
    def handler(self, function: H, /) -> H: ...
    @overload
    def handler(
        self,
        *names: str,
        subscribe: bool | None = None,
        limit: Limit | None = None,
        retries: Retries | None = None,
        time_limit: timedelta | None = None,
        long: bool = False,
    ) -> Callable[[H], H]: ...

    def handler(
        self,
        *given: Any,
        subscribe: bool | None = None,
        limit: Limit | None = None,
        retries: Retries | None = None,
        time_limit: timedelta | None = None,
        long: bool = False,
    ) -> Any:
        """Register a handler: `@endpoint.handler`, or `@endpoint.handler("Wire.Name", …)` for dicts and bytes.

        The function takes the message and, if it likes, a context and what was provided (`provide`). `async def`
        handlers get a `Context`; `def` handlers run in a thread and get a `SyncContext`. Starting subscribes to what
        was declared with `rowbus.event`; `subscribe` says of other types that they are events, or of events that
        nothing is to be subscribed to. `limit` bounds how many of these messages all instances together handle, in a
        span of time or at a time. `retries` say how its failed messages are tried again, in place of `recoverability`;
        `time_limit` how long one call may take, in place of the setting. A `long` handler runs outside of transactions
        and gets a `LongContext` (`def`: `SyncLongContext`). Raises ConfigurationError for what cannot be a handler.
        """
        check_time_limit(time_limit)
        if long and self.settings.transaction_mode is TransactionMode.NONE:
            text = "Mode NONE has no transaction in which a message could move: no long handlers."
            raise ConfigurationError(text)
        if retries is not None:
            require_type("retries", retries, Retries, "rowbus.Retries(…)")
            can_delay = self.delayed_delivery is not None
            require_possible(retries, self.settings.transaction_mode, can_delay=can_delay)
        if len(given) == 1 and not isinstance(given[0], str):
            self._handlers.add(given[0])
            return given[0]

        def register(function: H) -> H:
            self._handlers.add(
                function,
                given,
                subscribe=subscribe,
                limit=limit,
                retries=retries,
                time_limit=time_limit,
                long=long,
            )
            return function

        return register

    def use(self, step: S, /) -> S:
        """Add a step around the handlers: `@endpoint.use` above an `async def step(context, proceed)`, or a mutator.

        Steps run for each attempt, in the order of `use`, after the built-in ones (throttle, audit, de-duplication):
        what stands before `await proceed()` before the later steps and the handlers, the rest after them. A step that
        raises fails the attempt; one that does not proceed has the message consumed without its handlers. A `Mutator`
        changes what is sent, in the order of `use`, and what is received, in the other order, before all steps. Returns
        what it is given. Raises ConfigurationError for what cannot be a step, and when the endpoint is started.
        """
        self._require_stopped("add its steps")
        if isinstance(step, Mutator):
            checked_mutator(step)
            self._mutators.append(step)
        else:
            self._steps.append(checked(step))
        return step

    def add(self, addition: Addition, /) -> None:
        """Add a saga class: its messages are handled, and its table is created with the queues.

        Its methods are given what was provided before, by name, as handlers are.

        Raises ConfigurationError when the endpoint is started, and in mode NONE, which has no transaction for it.
        """
        self._require_stopped("add what it has")
        if self.settings.transaction_mode is TransactionMode.NONE:
            raise ConfigurationError("Mode NONE has no transaction, which a saga needs: use another mode.")
        if not hasattr(addition, "component"):
            raise ConfigurationError(f"{addition!r} is no addition; give a class of a rowbus.Saga.")
        component = addition.component()
        self._components.append(component)
        for each in self._components:
            each.bind(self.name, self.addresses, self._components, self._handlers.dependencies)
        for handling in component.handlings:
            self._handlers.add_handling(handling)

    def observe(self, observer: V, /) -> V:
        """Have a `def` called with each `Decision` about a failed message, and each `Throttling`: `@endpoint.observe`.

        It is called on the event loop, before what was decided commits, and must be quick; what it raises is logged.
        Raises ConfigurationError for what cannot be called so, and when the endpoint is started.
        """
        check_function(observer, "What observes an endpoint", "event")
        self._require_stopped("have it observed")
        self._observers.append(observer)
        return observer

    def limit(self, rate: str, *, burst: int | None = None) -> None:
        """Receive so many messages in a span of time, in all instances together: `endpoint.limit("100/minute")`.

        The others wait in the queue; nothing else is done with them. `burst` is how many may come at once after a rest;
        see `RateLimit`, with which a handler limits its messages, or those of each key. Raises ConfigurationError, also
        when the endpoint is started.
        """
        self._require_stopped("limit it")
        self._limit = RateLimit(rate, burst=burst)

    def check(
        self, *, every: timedelta | None = None, name: str = "", category: str = ""
    ) -> Callable[[F], F]:
        """Register a check that ServicePulse shows: `@endpoint.check(every=…)` above a function without arguments.

        It is called at the start and then `every` so often, give or take a fifth; without `every` once. All is well
        when it returns None; it fails by returning a text, or by raising. A `def` runs in a thread. It is called only
        with `service_platform`. `name` defaults to the function's, with spaces. Raises ConfigurationError.
        """

        def register(function: F) -> F:
            check = made_check(function, name, category, every)
            if check.name in self._checks or self._lifetime.run is not None:
                raise ConfigurationError(
                    f"Check {check.name!r} is there already, or endpoint {self.name} is started."
                )
            self._checks[check.name] = check
            return function

        return register

    def every(
        self,
        when: str | timedelta,
        *,
        tz: str | None = None,
        to: str | QueueAddress | None = None,
        type: str | None = None,
        catch_up: CatchUp = "one",
        name: str = "",
    ) -> Callable[[F], F]:
        """Have a message sent at each tick of a schedule: `@endpoint.every("0 7 * * mon-fri", tz="Europe/Berlin")`.

        `when` is a cron expression (five fields, or six that begin with seconds), read in the time zone `tz` (None:
        UTC), or an interval of at least 0.1 s. Below stands a function that takes the tick, an aware datetime in UTC,
        or nothing, and returns the message, or None for none at this tick; or a message class. It must be quick: it
        runs on the event loop.

        Each tick is sent once, however many instances run, in the transaction that notes it in the table
        `<endpoint>.Recurring`. The message goes to the endpoint's own queue, or `to` another; `type` names dicts and
        bytes. Ticks that nothing sent
        for a minute are missed: `catch_up` says that of missed ticks "one" message is sent (if no tick is due now),
        "all", or none ("skip"). `name`, by default the function's, is the schedule's key; one with another `when`
        begins anew. Raises ConfigurationError, InvalidAddressError.
        """
        if to is not None:
            address_of(to, self.addresses)

        def register(make: F) -> F:
            message = recurring_message(make, when, tz=tz, name=name, to=to, type=type, catch_up=catch_up)
            if message.name in self._recurring or self._lifetime.run is not None:
                raise ConfigurationError(
                    f"The recurring message {message.name!r} is there already, or endpoint {self.name} is started."
                )
            self._recurring[message.name] = message
            return make

        return register

    @property
    def database(self) -> str | None:
        """The connection string given, None for none. Giving another, before the start, changes what names mean too."""
        return self._database

    @database.setter
    def database(self, dsn: str | None) -> None:
        self._require_stopped("give it its database")
        require_type("database", dsn, str | None, "a connection string, or None")
        addresses = addresses_of(dsn, self.settings.schema)
        addresses.validate_endpoint_name(self.name, delayed_suffix=table_suffix(self.delayed_delivery))
        check_endpoint_name(self.name)
        self._database, self.addresses, settings = dsn, addresses, self.settings
        for component in self._components:
            component.bind(self.name, addresses, self._components, self._handlers.dependencies)
        queue = self.name if settings.queue is None else settings.queue
        addresses.validate_endpoint_name(queue, delayed_suffix="")
        self.address = addresses.for_endpoint(queue)
        self.address.validate()
        self.instance_address: QueueAddress | None = None
        if settings.discriminator:
            self.instance_address = addresses.for_endpoint(queue, discriminator=settings.discriminator)
            self.instance_address.validate()
        check_platform(settings.service_platform, addresses)
        destination_rule(settings.allowed_destinations, self.address)  # raises for what is no queue's name
        self.error_queue = address_of(settings.error_queue, addresses)
        self.audit_queue = None if (audit := settings.audit_queue) is None else address_of(audit, addresses)
        self.subscription_table = address_of(settings.subscription_table, addresses)

    # --- life

    def run(self, *, drain: timedelta | None = None) -> None:
        """Serve as `Serving.run`; raises ConfigurationError for an endpoint without handlers too."""
        self.require_handlers()
        super().run(drain=drain)

    def require_handlers(self) -> None:
        """Raise ConfigurationError if nothing takes the messages of an endpoint that is to be served."""
        if not self._handlers.names():
            raise ConfigurationError(
                f"Endpoint {self.name} has no handlers, so each of its messages would end in the queue "
                f"{self.error_queue}. Import the modules with its @handler functions before it runs."
            )

    async def start(self) -> None:
        """Create missing queues if the settings say so, purge if they say so, and begin to receive.

        Raises ConnectionLostError, QueueNotFoundError, ConfigurationError (the schema is missing).
        """
        await self._lifetime.begin(self._begin)

    async def _begin(self) -> RunningEndpoint:
        database = await self._locate()
        running = RunningEndpoint(self.parts, database)  # refuses what cannot be, before it connects
        if not await self._is_notified(database):
            settings = replace(self.settings, notifications=False)
            running = RunningEndpoint(self.parts._replace(settings=settings), database)
        try:
            with beginning(self):
                await running.start()
        except BaseException:
            await running.stop(timeout=0)
            raise
        logger.info("Endpoint %s is receiving from %s on %s", self.name, self.address, running.database.name)
        return running

    async def install(self) -> None:
        """Create the queues that are missing, as `start` does, without starting."""
        await install_only(await self._locate(), self.parts)

    async def change_lanes(self) -> int:
        """Give its queue in the database the lanes that it has here; return how many messages moved."""
        return await change_lanes(await self._locate(), self.parts)

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Receive no more, let handlers finish, close; cancel them after `timeout` s. Raises HandlerError in one."""
        await self._lifetime.end(timeout)

    def change_concurrency(self, concurrency: int) -> None:
        """Process this many messages (or batches) at a time from now on."""
        require_type("concurrency", concurrency, int, "a number")
        if concurrency < 1:
            raise ConfigurationError(f"concurrency is {concurrency}; it must be at least 1.")
        self._started().concurrency.want(concurrency)

    @property
    def parts(self) -> Parts:
        """The endpoint as it was described until now; for those who start it, install it, or try its handlers."""
        return Parts(
            self.name,
            self.settings,
            self.addresses,
            self.address,
            self.instance_address,
            self.error_queue,
            self.audit_queue,
            self.subscription_table,
            self._handlers,
            self._routes,
            self._policy,
            self._on_critical_error,
            self.delayed_delivery,
            tuple(self._steps),
            tuple(self._checks.values()),
            tuple(self._components),
            tuple(self._recurring.values()),
            bound_mutators(self._mutators, self.addresses, self.settings.max_message_size),
            self._limit,
            tuple(self._observers),
            self.lanes,
        )

    def _describe(self, found: Collection) -> None:
        from rowbus.endpoint.description import add_endpoint  # noqa: PLC0415 - loaded where it is asked for

        add_endpoint(found, self.parts)

    async def _is_notified(self, database: Database) -> bool:
        """Say whether the endpoint hears of messages, if it wants to: through a pooler it may hear nothing."""
        if not self.settings.notifications or await asyncio.to_thread(database.keeps_sessions):
            return True
        logger.info(
            "Endpoint %s reaches %s through a pooler that lends a connection for one transaction at a time: nothing "
            "notifies it, and it looks for messages every %s s",
            self.name,
            database.name,
            self.settings.peek_delay.total_seconds(),
        )
        return False

    async def _locate(self) -> Database:
        dsn = await asyncio.to_thread(self._resolve)
        if addresses_of(dsn, self.settings.schema) != self.addresses:  # the variable has changed
            raise ConfigurationError(
                f"Endpoint {self.name} was made for another database than the one of {DATABASE_VARIABLE}: set the "
                "variable before the endpoint is made, or give it the database."
            )
        name, prepares = f"rowbus {self.name}"[:63], self.settings.prepared_statements
        return open_database(dsn, application_name=name, prepared_statements=prepares)

    def _resolve(self) -> str:
        """Return the connection string to use, now; starts the embedded server if there is no other."""
        return resolve_dsn(self.database)

    def database_of_tests(self) -> str | None:
        """Return the connection string of the endpoint's own database if none but tests use that, else None."""
        return self.database if self.database and is_temporary(self.database) else None

    def _started(self) -> RunningEndpoint:
        if (running := self._lifetime.here()) is None:
            text = f"Endpoint {self.name} is not started: use `async with endpoint:` or endpoint.run()."
            raise ConfigurationError(text)
        return running

    @property
    def ordered_receivers(self) -> Sequence[Receiver]:
        """The receivers of its lanes with order in this process; see `rowbus.testing`."""
        return () if (running := self._lifetime.run) is None else running.ordered_receivers
