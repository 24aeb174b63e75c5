"""The steps that users put around handlers: their order, what they see, and what becomes of what they do."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

import rowbus
from rowbus.errors import ConfigurationError, HandlerError
from rowbus.messages.headers import Header
from rowbus.testing import run_handlers
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import (
    SimulatedError,
    eventually,
    in_all_modes,
    in_transaction_modes,
    in_transaction_modes_failing,
)
from tests.fixtures.every import every

if TYPE_CHECKING:
    from tests.conformance.backend import Backend, StoredRow

HOUR = timedelta(hours=1)
Billed = OrderAccepted
tenant_in_hand: ContextVar[str | None] = ContextVar("tenant_in_hand")


async def processed(endpoint: rowbus.Endpoint, backend: Backend, *orders: str, **headers: str) -> None:
    """Start an endpoint, have it process these orders, and stop it."""
    await backend.create_queue("Billing")
    await backend.create_queue("Client")
    async with endpoint:
        for order in orders:
            await endpoint.send(endpoint.name, PlaceOrder(order), headers=headers, reply_to="Client")

        async def empty() -> bool:
            return await backend.count(endpoint.address) == 0

        await eventually(empty)


class Shop:
    """The endpoint Sales, and what happened in it, in order."""

    def __init__(self, endpoints: Endpoints, **settings: Any) -> None:  # noqa: ANN401 - the endpoint's own
        self.backend = endpoints.backend
        self.happened: list[str] = []
        self.sales = endpoints.make("Sales", **{"concurrency": 1, **settings})

        @self.sales.handler
        async def place(message: PlaceOrder, context: rowbus.Context) -> None:
            self.happened.append(f"handler {message.order_id}")
            await context.send("Billing", Billed(message.order_id))
            if message.order_id == "bad":
                raise SimulatedError

    def step(self, name: str) -> rowbus.Step:
        """Return a step that notes when it begins and when the rest has ended."""

        async def noting(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
            self.happened.append(f"{name} begins")
            try:
                await proceed()
            finally:
                self.happened.append(f"{name} ends")

        return noting

    async def process(self, *orders: str, **headers: str) -> None:
        await processed(self.sales, self.backend, *orders, **headers)

    async def failed(self) -> list[StoredRow]:
        return await self.backend.rows(ERROR)


# ---------------------------------------------------------------------------------------------------------- their way


async def test_steps_run_in_the_order_of_use_around_the_handlers(endpoints: Endpoints) -> None:
    shop = Shop(endpoints)
    for name in ("one", "two"):
        assert shop.sales.use(step := shop.step(name)) is step

    await shop.process("1")

    assert shop.happened == ["one begins", "two begins", "handler 1", "two ends", "one ends"]
    assert await shop.backend.count("Billing") == 1


async def test_use_is_a_decorator_and_a_step_may_be_an_object(endpoints: Endpoints) -> None:
    shop = Shop(endpoints)

    @shop.sales.use
    async def first(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        shop.happened.append("first")
        await proceed()

    class Second:
        async def __call__(self, context: rowbus.StepContext, proceed: rowbus.Proceed, /) -> None:
            shop.happened.append("second")
            await proceed()

    async def named(name: str, context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        shop.happened.append(name)
        await proceed()

    shop.sales.use(Second())
    shop.sales.use(partial(named, "third"))
    await shop.process("1")

    assert shop.happened == ["first", "second", "third", "handler 1"]


async def test_steps_run_around_def_handlers_which_see_their_context_variables(endpoints: Endpoints) -> None:
    seen: list[str | None] = []
    sales = endpoints.make("Sales")

    @sales.use
    async def tenant(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        context.outgoing_headers["Tenant"] = "blue"
        tenant_in_hand.set(context.headers["Tenant"])
        await proceed()
        seen.append("after")

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        seen.append(tenant_in_hand.get())
        context.send("Billing", Billed(message.order_id))
        context.reply(Billed(message.order_id))

    await processed(sales, endpoints.backend, "1", Tenant="blue")

    assert seen == ["blue", "after"]
    for queue in ("Billing", "Client"):
        assert [row.headers["Tenant"] for row in await endpoints.backend.rows(queue)] == ["blue"]


async def test_steps_run_for_each_message_of_a_batch(endpoints: Endpoints) -> None:
    shop = Shop(endpoints, batch_size=10)
    shop.sales.use(shop.step("one"))
    orders = [str(number) for number in range(5)]

    await shop.process(*orders)

    assert shop.happened == [
        what for order in orders for what in ("one begins", f"handler {order}", "one ends")
    ]


async def test_de_duplication_stands_before_the_steps_of_the_user(endpoints: Endpoints) -> None:
    shop = Shop(endpoints, deduplicate_for=HOUR)
    shop.sales.use(shop.step("one"))

    await shop.process("1", "1", **{Header.MESSAGE_ID: "the same"})

    assert shop.happened == ["one begins", "handler 1", "one ends"]


async def test_the_audit_copy_has_no_header_of_a_step_and_comes_also_when_a_step_does_not_proceed(
    endpoints: Endpoints,
) -> None:
    shop = Shop(endpoints, audit_queue="audit")

    @shop.sales.use
    async def stop(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        context.outgoing_headers["Tenant"] = "blue"
        if context.message == PlaceOrder("1"):
            await proceed()

    await shop.process("1", "2")

    assert shop.happened == ["handler 1"]
    assert ["Tenant" in row.headers for row in await shop.backend.rows("audit")] == [False, False]


async def test_a_message_without_a_body_passes_the_steps(endpoints: Endpoints) -> None:
    shop, seen = Shop(endpoints), list[object]()

    @shop.sales.use
    async def look(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        seen.append((context.message, context.message_types, context.headers[Header.MESSAGE_ID]))
        await proceed()

    await shop.sales.install()
    row = await shop.backend.insert("Sales", "{}", b"")
    await shop.process()

    assert seen == [(None, (), row)]
    assert await shop.failed() == []


# ----------------------------------------------------------------------------------------------------------- failures


@in_transaction_modes_failing
async def test_a_step_that_raises_fails_the_attempt_and_each_retry_runs_the_steps_again(
    endpoints: Endpoints,
) -> None:
    shop = Shop(endpoints, recoverability=rowbus.Recoverability(immediate=2, delayed=0))
    attempts: list[tuple[int, int]] = []

    @shop.sales.use
    async def fail(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        await proceed()
        attempts.append((context.attempt, context.delayed_retries))
        raise SimulatedError

    await shop.process("1", **{Header.RETRIES: "2"})

    assert attempts == [(1, 2), (2, 2), (3, 2)]
    assert shop.happened == ["handler 1"] * 3
    assert await shop.backend.count("Billing") == 0
    assert len(await shop.failed()) == 1


@in_transaction_modes_failing
async def test_what_a_handler_raises_passes_the_steps_and_counts_once(endpoints: Endpoints) -> None:
    shop = Shop(endpoints, recoverability=rowbus.Recoverability(immediate=1, delayed=0))
    shop.sales.use(shop.step("one"))

    await shop.process("bad")

    assert shop.happened == ["one begins", "handler bad", "one ends"] * 2
    (row,) = await shop.failed()
    assert (row.headers[Header.EXCEPTION_TYPE] or "").endswith("SimulatedError")


async def test_attempts_count_from_one_for_the_next_message(endpoints: Endpoints) -> None:
    shop, attempts = (
        Shop(endpoints, recoverability=rowbus.Recoverability(immediate=1, delayed=0)),
        list[int](),
    )

    @shop.sales.use
    async def count(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        attempts.append(context.attempt)
        await proceed()

    await shop.process("bad", "good")

    assert attempts == [1, 2, 1]


@in_transaction_modes
async def test_a_step_that_does_not_proceed_consumes_the_message_without_its_handlers(
    endpoints: Endpoints,
) -> None:
    shop = Shop(endpoints)

    @shop.sales.use
    async def stop(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        await context.send("Client", Billed("stopped"))

    shop.sales.use(shop.step("never reached"))
    await shop.process("1")

    assert shop.happened == []
    assert await shop.backend.count("Client") == 1
    assert await shop.failed() == []


async def test_a_step_may_limit_the_time_of_the_handlers(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.use
    async def limit(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        async with asyncio.timeout(0):
            await proceed()

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        await asyncio.Event().wait()

    await processed(sales, endpoints.backend, "1")

    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_TYPE] == "TimeoutError"


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
async def test_a_step_that_does_not_await_the_rest_or_asks_for_it_twice_fails_the_attempt(
    endpoints: Endpoints,
) -> None:
    """Neither loses a message silently nor handles it twice."""
    shop = Shop(endpoints, recoverability=NO_RETRIES)

    @shop.sales.use
    async def careless(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        if context.message == PlaceOrder("forgotten"):
            _ = proceed()  # the mistake: without await
        else:
            await proceed()
            await proceed()

    await shop.process("forgotten", "twice")

    assert [row.headers[Header.EXCEPTION_TYPE] for row in await shop.failed()] == [
        "rowbus.errors.HandlerError"
    ] * 2
    assert shop.happened == ["handler twice"]
    assert await shop.backend.count("Billing") == 0


# ------------------------------------------------------------------------------------------------- what steps may do


@in_transaction_modes
async def test_a_step_works_in_the_transaction_of_the_message(endpoints: Endpoints) -> None:
    shop = Shop(endpoints, recoverability=NO_RETRIES)
    await shop.backend.create_business_tables()

    @shop.sales.use
    async def write(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        await shop.backend.write(context.connection, f"before {shop.happened}")
        await proceed()
        await shop.backend.write(context.connection, "after")

    await shop.process("bad", "good")

    assert sorted(await shop.backend.business()) == ["after", "before ['handler bad']"]


@in_transaction_modes
async def test_what_a_step_sends_leaves_with_the_attempt_before_and_after_what_the_handlers_send(
    endpoints: Endpoints,
) -> None:
    shop = Shop(endpoints, recoverability=NO_RETRIES)

    @shop.sales.use
    async def send(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        await context.send("Billing", Billed("before"))
        await proceed()
        await context.send("Billing", Billed("after"))
        await context.reply(Billed("reply"))

    await shop.process("bad", "good")

    sent = [row.body for row in await shop.backend.rows("Billing")]
    assert sent == [b'{"order_id":"%s"}' % what for what in (b"before", b"good", b"after")]
    assert await shop.backend.count("Client") == 1


@in_all_modes
async def test_outgoing_headers_are_on_all_that_is_sent_published_replied_and_delayed(
    endpoints: Endpoints,
) -> None:
    sales, backend = endpoints.make("Sales"), endpoints.backend

    @sales.use
    async def tenant(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        context.outgoing_headers["Tenant"] = context.headers["Tenant"] or ""
        await proceed()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Billing", Billed("sent"))
        await context.send("Billing", Billed("now"), immediate=True)
        await context.send("Billing", Billed("later"), delay=HOUR)
        await context.send("Billing", Billed("another's"), headers={"Tenant": "red"})
        await context.publish(Billed("published"))
        await context.reply(Billed("replied"))

    await sales.install()
    await backend.subscribe("Billing", "Shop.Messages.OrderAccepted")
    await processed(sales, backend, "1", Tenant="blue")

    tenants = {bytes(row.body or b""): row.headers["Tenant"] for row in await backend.rows("Billing")}
    assert tenants == {
        b'{"order_id":"%s"}' % what: tenant
        for what, tenant in (
            (b"sent", "blue"),
            (b"now", "blue"),
            (b"another's", "red"),
            (b"published", "blue"),
        )
    }
    assert [row.headers["Tenant"] for row in await backend.rows("Client")] == ["blue"]
    assert [row.headers["Tenant"] for row in await backend.delayed_rows("Sales.Delayed")] == ["blue"]


async def test_outgoing_headers_end_with_their_attempt(endpoints: Endpoints) -> None:
    shop = Shop(endpoints)

    @shop.sales.use
    async def first_only(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        assert context.outgoing_headers == {}
        if context.message == PlaceOrder("1"):
            context.outgoing_headers["Tenant"] = "blue"
        await proceed()

    await shop.process("1", "2")

    assert [row.headers.get("Tenant") for row in await shop.backend.rows("Billing")] == ["blue", None]


async def test_a_step_reads_the_message_and_its_headers_and_changes_neither(endpoints: Endpoints) -> None:
    shop, seen = Shop(endpoints), list[object]()

    @shop.sales.use
    async def look(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        message = cast("PlaceOrder", context.message)
        seen.extend([context.message_id, context.message_types, message.order_id, context.body])
        message.order_id = "changed"
        with pytest.raises(TypeError):
            context.headers["Tenant"] = "red"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
        await proceed()

    await shop.process("1", **{Header.MESSAGE_ID: "its id"})

    assert seen == ["its id", ("Shop.Messages.PlaceOrder",), "1", b'{"order_id":"1"}']
    assert shop.happened == ["handler 1"]


async def test_a_message_nothing_handles_may_be_consumed_by_a_step_and_fails_one_that_reads_it(
    endpoints: Endpoints,
) -> None:
    shop = Shop(endpoints, recoverability=NO_RETRIES)

    @shop.sales.use
    async def ignore(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        if context.message_types != ("Shop.Ignored",):
            shop.happened.append(f"read {context.message}")
            await proceed()

    async with shop.sales:
        await shop.sales.send("Sales", {}, type="Shop.Ignored")
        await shop.sales.send("Sales", {}, type="Shop.Unknown")

        async def empty() -> bool:
            return await shop.backend.count("Sales") == 0

        await eventually(empty)

    assert shop.happened == []
    (row,) = await shop.failed()
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.UnknownMessageTypeError"


# ------------------------------------------------------------------------------------------------- what is refused


async def test_a_started_endpoint_takes_no_more_steps_until_it_is_stopped(endpoints: Endpoints) -> None:
    shop = Shop(endpoints)
    async with shop.sales:
        with pytest.raises(ConfigurationError, match="Endpoint Sales is started"):
            shop.sales.use(shop.step("too late"))

    shop.sales.use(shop.step("one"))
    await shop.process("1")

    assert shop.happened == ["one begins", "handler 1", "one ends"]


def _def_step(context: object, proceed: object) -> None: ...


async def _of_one(context: object) -> None: ...


@every(
    "step, says",
    [(_def_step, "must be an `async def`"), (_of_one, "must take"), ("no function", "must take")],
)
def test_what_cannot_be_a_step_is_refused(step: Any, says: str) -> None:  # noqa: ANN401 - it is wrong
    with pytest.raises(ConfigurationError, match=says):
        rowbus.Endpoint("Sales").use(step)


# ---------------------------------------------------------------------------------------------- without a database


async def test_run_handlers_runs_the_steps() -> None:
    sales, seen = rowbus.Endpoint("Sales"), list[object]()

    @sales.use
    async def tenant(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        seen.append((context.attempt, context.delayed_retries, context.message))
        context.outgoing_headers["Tenant"] = "blue"
        await proceed()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.publish(Billed("1"))

    outcome = await run_handlers(sales, PlaceOrder("1"))

    assert seen == [(1, 0, PlaceOrder("1"))]
    assert [sent.headers["Tenant"] for sent in outcome.published] == ["blue"]


async def test_a_step_that_fails_in_run_handlers_is_its_error() -> None:
    sales = rowbus.Endpoint("Sales")

    @sales.use
    async def write(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        await context.connection.execute("select 1")

    sales.handler("Shop.Order")(_of_one)

    assert isinstance((await run_handlers(sales, {}, type="Shop.Order")).error, HandlerError)
