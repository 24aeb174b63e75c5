"""Mutators: what leaves is changed, what arrives is changed back, and copies stay as they came."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

import rowbus
from rowbus.endpoint.steps.chain import with_mutators
from rowbus.errors import ConfigurationError, InvalidHeaderError
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.mutators import Mutator, checked_mutator, put_on, with_changes
from rowbus.testing import run_handlers
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import SimulatedError, eventually, in_all_modes, within
from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tests.repository.pages import blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conformance.backend import Backend, StoredRow

HOUR = timedelta(hours=1)
BODY, REVERSED = b'{"order_id":"1"}', b'}"1":"di_redro"{'


class Reversal(Mutator):
    """Turns bodies round, and says so in a header, which it takes away again."""

    def outgoing(self, headers: dict[str, str | None], body: bytes) -> bytes:
        headers["Shop.Reversed"] = "yes"
        return body[::-1]

    def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
        return body[::-1] if headers.pop("Shop.Reversed", None) else body


def sealing() -> Mutator:
    """Return the mutator of the how-to page that seals bodies."""
    page = (ROOT / "docs" / "how-to" / "encrypt-messages.md").read_text("utf-8")
    program = next(block.text for block in blocks(page) if block.text.startswith("# sealing.py"))
    names: dict[str, object] = {}
    exec(program, names)  # noqa: S102 - our own page
    return cast("Callable[[bytes], Mutator]", names["Sealing"])(b"k" * 32)


def test_the_recipe_for_sealing_refuses_what_was_changed_or_moved_to_another_message() -> None:
    headers: dict[str, str | None] = {
        Header.MESSAGE_ID: "1",
        Header.ENCLOSED_MESSAGE_TYPES: "Shop.PayOrder",
    }
    mutator = sealing()
    sealed = mutator.outgoing(headers, BODY)
    assert BODY not in sealed
    assert mutator.incoming(headers, sealed) == BODY

    turned = bytes([*sealed[:-1], sealed[-1] ^ 1])
    for body, changed in (
        (turned, {}),
        (sealed[:11], {}),
        (b"", {}),
        (sealed, {Header.MESSAGE_ID: "2"}),
        (sealed, {Header.ENCLOSED_MESSAGE_TYPES: "Shop.Refund"}),
    ):
        with pytest.raises(rowbus.Unrecoverable, match="not as it was sealed"):
            mutator.incoming({**headers, **changed}, body)


class Suffix(Mutator):
    """Ends bodies with a letter."""

    def __init__(self, letter: bytes) -> None:
        self.letter = letter

    def outgoing(self, headers: dict[str, str | None], body: bytes) -> bytes:
        return body + self.letter

    def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
        assert body.endswith(self.letter)
        return body[: -len(self.letter)]


async def processed(endpoint: rowbus.Endpoint, backend: Backend, *orders: str) -> None:
    """Have a started endpoint process these orders."""
    for order in orders:
        await endpoint.send(endpoint.name, PlaceOrder(order), reply_to="Client")
    await until_there_are(0, backend, "Sales")


async def until_there_are(number: int, backend: Backend, queue: str) -> None:
    async def counted() -> bool:
        return await backend.count(queue) == number

    await eventually(counted)


def assert_reversed(rows: list[StoredRow], *intents: str) -> None:
    assert [row.headers[Header.MESSAGE_INTENT] for row in rows] == list(intents)
    assert {(row.headers["Shop.Reversed"], bytes(row.body or b"")) for row in rows} == {("yes", REVERSED)}


# ---------------------------------------------------------------------------------------------------------- what leaves


@in_all_modes
async def test_all_that_an_endpoint_sends_is_mutated_and_what_it_receives_is_mutated_back(
    endpoints: Endpoints,
) -> None:
    backend, handled = endpoints.backend, list[object]()
    sales = endpoints.make("Sales", concurrency=1)
    assert isinstance(sales.use(Reversal()), Reversal)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        handled.append((message, context.body, "Shop.Reversed" in context.headers))
        await context.send("Billing", OrderAccepted("1"))
        await context.send("Billing", OrderAccepted("1"), immediate=True)
        await context.send("Billing", OrderAccepted("1"), delay=HOUR)
        await context.publish(OrderAccepted("1"))
        await context.reply(OrderAccepted("1"))
        await context.send_local(OrderAccepted("1"))

    @sales.handler
    def accepted(message: OrderAccepted, context: rowbus.SyncContext) -> None:
        handled.append((message, context.body, "Shop.Reversed" in context.headers))
        context.send("Threads", OrderAccepted("1"))

    for queue in ("Billing", "Client", "Threads"):
        await backend.create_queue(queue)
    await sales.install()
    await backend.subscribe("Billing", "Shop.Messages.OrderAccepted")
    async with sales:
        await processed(sales, backend, "1")
        await until_there_are(1, backend, "Threads")
        await sales.publish(OrderAccepted("1"))

    assert handled == [(kind("1"), BODY, False) for kind in (PlaceOrder, OrderAccepted)]
    billing = sorted(await backend.rows("Billing"), key=lambda row: row.headers[Header.MESSAGE_INTENT] or "")
    assert_reversed(billing, "Publish", "Publish", "Send", "Send")
    assert_reversed(await backend.rows("Client"), "Reply")
    assert_reversed(await backend.rows("Threads"), "Send")
    assert [
        (row.headers["Shop.Reversed"], row.body) for row in await backend.delayed_rows("Sales.Delayed")
    ] == [("yes", REVERSED)]


async def test_a_client_mutates_what_it_sends_publishes_and_copies(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales")
    await sales.install()
    await backend.subscribe("Sales", "Shop.Messages.OrderAccepted")
    client = backend.client(mutators=[Reversal()])
    async with backend.transaction():
        await client.send("Sales", PlaceOrder("1"))
        await client.publish(OrderAccepted("1"))
        await client.send_many("Sales", [PlaceOrder("1"), PlaceOrder("1")])
        await client.send_many("Sales", [PlaceOrder("1")], delay=HOUR)

    rows = await backend.rows("Sales")
    assert_reversed(rows, "Send", "Publish", "Send", "Send")
    assert len({row.headers[Header.MESSAGE_ID] for row in rows}) == 4
    (delayed,) = await backend.delayed_rows("Sales.Delayed")
    assert delayed.body == REVERSED
    assert delayed.headers["Shop.Reversed"] == "yes"


class Tenants(Mutator):
    """Notes what leaves, and gives each message the tenant of the message in hand."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None, object]] = []

    def leaving(self, draft: rowbus.Draft) -> None:
        table = None if draft.destination is None else draft.destination.table
        self.seen.append((draft.intent, table, draft.message))
        if isinstance(draft.message, PlaceOrder) and draft.message.order_id == "refused":
            raise SimulatedError
        draft.headers.setdefault("Shop.Tenant", (draft.incoming or {}).get("Shop.Tenant") or "none")
        draft.message = OrderAccepted("changed")


async def test_what_leaves_an_endpoint_is_changed_before_it_is_written(endpoints: Endpoints) -> None:
    backend, tenants = endpoints.backend, Tenants()
    sales = endpoints.make("Sales", concurrency=1)

    @sales.handler
    async def accepted(message: OrderAccepted, context: rowbus.Context) -> None:
        await context.send("Billing", PlaceOrder("1"))
        await context.send("Billing", {"order_id": "1"}, type="Shop.Any", headers={"Shop.Tenant": "given"})
        await context.reply(PlaceOrder("2"))
        await context.publish(OrderAccepted("1"))
        with pytest.raises(SimulatedError):
            await context.send("Billing", PlaceOrder("refused"))

    sales.use(tenants)
    for queue in ("Billing", "Client"):
        await backend.create_queue(queue)
    await sales.install()
    await backend.subscribe("Billing", "Shop.Messages.OrderAccepted")
    async with sales:
        await sales.send("Sales", PlaceOrder("0"), reply_to="Client", headers={"Shop.Tenant": "blue"})
        await until_there_are(3, backend, "Billing")

    assert tenants.seen == [
        ("Send", "Sales", PlaceOrder("0")),
        ("Send", "Billing", PlaceOrder("1")),
        ("Send", "Billing", {"order_id": "1"}),
        ("Reply", "Client", PlaceOrder("2")),
        ("Publish", None, OrderAccepted("1")),
        ("Send", "Billing", PlaceOrder("refused")),
    ]
    rows = [*await backend.rows("Billing"), *await backend.rows("Client")]
    assert sorted(row.headers["Shop.Tenant"] or "" for row in rows) == ["blue", "blue", "blue", "given"]
    assert {row.body for row in rows} == {b'{"order_id":"changed"}'}


async def test_what_leaves_a_client_is_changed_before_it_is_written(endpoints: Endpoints) -> None:
    backend, tenants = endpoints.backend, Tenants()
    await backend.create_queue("Sales")
    client = backend.client(mutators=[tenants])
    async with backend.transaction():
        await client.send("Sales", PlaceOrder("1"))
        await client.send_many("Sales", [PlaceOrder("2"), PlaceOrder("3")], headers={"Shop.Tenant": "red"})

    assert tenants.seen == [("Send", "Sales", PlaceOrder(each)) for each in "123"]
    rows = await backend.rows("Sales")
    assert [row.headers["Shop.Tenant"] for row in rows] == ["none", "red", "red"]
    assert {row.headers[Header.ENCLOSED_MESSAGE_TYPES] for row in rows} == {"Shop.Messages.OrderAccepted"}
    assert {row.body for row in rows} == {b'{"order_id":"changed"}'}


async def test_mutators_work_in_the_order_of_use_and_backwards_on_what_is_received(
    endpoints: Endpoints,
) -> None:
    backend, handled = endpoints.backend, list[object]()
    sales = endpoints.make("Sales", concurrency=1)
    for mutator in (Suffix(b"a"), Suffix(b"b")):
        sales.use(mutator)

    @sales.use
    async def look(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        handled.append((context.body, context.message))
        await proceed()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Client", message)

    await backend.create_queue("Client")
    async with sales:
        await processed(sales, backend, "1")

    assert handled == [(BODY, PlaceOrder("1"))]
    assert [row.body for row in await backend.rows("Client")] == [BODY + b"ab"]


async def test_each_message_of_a_batch_is_mutated_back(endpoints: Endpoints) -> None:
    backend, handled = endpoints.backend, list[str]()
    sales = endpoints.make("Sales", concurrency=1, batch_size=10)
    sales.use(Reversal())

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        handled.append(message.order_id)

    async with sales:
        await processed(sales, backend, *"12345")

    assert sorted(handled) == list("12345")


# ---------------------------------------------------------------------------------------------------- copies and faults


async def test_retries_and_copies_have_the_body_as_it_came(endpoints: Endpoints) -> None:
    """Contents decrypted for the handlers are not written down, and no attempt decrypts twice."""
    backend, bodies = endpoints.backend, list[bytes]()
    policy = rowbus.Recoverability(immediate=1, delayed=1, increase=timedelta(milliseconds=1))
    sales = endpoints.make("Sales", recoverability=policy, audit_queue="audit")
    sales.use(Reversal())

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        bodies.append(context.body)
        context.headers["Shop.Handled"] = "yes"
        if len(bodies) < 4:
            raise SimulatedError

    async with sales:
        await processed(sales, backend, "1")
        await until_there_are(1, backend, "audit")

    assert bodies == [BODY] * 4
    (audit,) = await backend.rows("audit")
    assert (audit.body, audit.headers["Shop.Reversed"], audit.headers["Shop.Handled"]) == (
        REVERSED,
        "yes",
        "yes",
    )


@in_all_modes
async def test_a_failed_message_is_in_the_error_queue_as_it_came(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.use(Reversal())

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        raise SimulatedError

    async with sales:
        await processed(sales, backend, "1")
        await until_there_are(1, backend, ERROR)

    (row,) = await backend.rows(ERROR)
    assert (row.body, row.headers["Shop.Reversed"]) == (REVERSED, "yes")


class Lock(Mutator):
    """Fails both ways."""

    def outgoing(self, headers: dict[str, str | None], body: bytes) -> bytes:
        raise SimulatedError("no key to lock with")

    def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
        raise SimulatedError("no key to open with")


async def test_what_a_mutator_raises_fails_the_call_or_the_attempt(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.use(Lock())

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        raise AssertionError

    async with sales:
        with pytest.raises(SimulatedError, match="to lock"):
            await sales.send("Sales", PlaceOrder("1"))
        async with backend.transaction():
            await backend.client().send("Sales", PlaceOrder("1"))
        await until_there_are(1, backend, ERROR)

    (row,) = await backend.rows(ERROR)
    assert (row.body, row.headers["NServiceBus.ExceptionInfo.Message"]) == (BODY, "no key to open with")


class Careless(Mutator):
    """Does what a mutator must not: writes a header that is none, or returns nothing."""

    def __init__(self, name: str, value: str) -> None:
        self.written = (name, value)

    def outgoing(self, headers: dict[str, str | None], body: bytes) -> bytes:
        name, headers[name] = self.written[0], self.written[1]
        return body if self.written[1] else cast("bytes", None)


@every(
    "written, error",
    [
        pytest.param((Header.TIME_SENT, "noon"), InvalidHeaderError, id="a time that is none"),
        pytest.param((Header.MESSAGE_ID, "x" * 201), InvalidHeaderError, id="an id too long for an outbox"),
        pytest.param(("Shop.Half", "\ud800"), InvalidHeaderError, id="half a character"),
        pytest.param(("Shop.Nothing", ""), ConfigurationError, id="no body"),
    ],
)
def test_what_no_receiver_could_read_does_not_leave(written: tuple[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        put_on(OutgoingMessage({Header.MESSAGE_ID: "1"}, b"{}"), [Careless(*written)])


def test_what_is_no_mutator_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"rowbus\.Mutator"):
        checked_mutator("no mutator")


# --------------------------------------------------------------------------------------------------------------- values


def test_without_mutators_nothing_is_done() -> None:
    async def process(_delivery: object) -> None: ...

    message = OutgoingMessage({}, b"{}")
    assert put_on(message, ()) is message
    assert with_mutators(process, ()) is process
    assert isinstance(with_mutators(process, [Mutator()]), partial)


def test_a_mutator_that_overrides_nothing_changes_nothing() -> None:
    message = OutgoingMessage({"A": "1"}, b"{}")
    assert put_on(message, [Mutator()]) == message
    assert Mutator().incoming({}, b"{}") == b"{}"


def test_changes_of_handlers_are_those_after_the_mutators() -> None:
    received: dict[str, str | None] = {"Key": "1", "Kept": "k", "Removed": "r"}
    off_the_wire: dict[str, str | None] = {"Kept": "k", "Removed": "r", "Opened": "o"}
    handled: dict[str, str | None] = {"Kept": "changed", "Opened": "o", "Added": "a"}
    assert with_changes(received, off_the_wire, handled) == {"Key": "1", "Kept": "changed", "Added": "a"}


def test_run_handlers_mutates_both_ways() -> None:
    sales = rowbus.Endpoint("Sales", database="host=nowhere")
    sales.use(Reversal())

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Billing", OrderAccepted(message.order_id))

    outcome = asyncio.run(run_handlers(sales, PlaceOrder("1")))

    assert outcome.error is None
    assert [(sent.body, sent.headers["Shop.Reversed"]) for sent in outcome.sends] == [(REVERSED, "yes")]


class Redaction(Mutator):
    """Keeps orders out of copies."""

    def copied(self, headers: dict[str, str | None], body: bytes) -> bytes:
        headers.pop("Shop.Name", None)
        headers["Shop.Copied"] = str("NServiceBus.FailedQ" in headers)
        return body.replace(b"1", b"*")


async def test_a_message_whose_copy_cannot_be_made_waits_and_holds_up_no_other(endpoints: Endpoints) -> None:
    class Careless(Mutator):
        def copied(self, headers: dict[str, str | None], body: bytes) -> bytes:
            raise SystemExit

    critical, called, done = list[str](), list[str](), asyncio.Event()
    sales = endpoints.make(
        "Sales", recoverability=NO_RETRIES, on_critical_error=lambda text, _: critical.append(text)
    )
    sales.use(Careless())

    @sales.handler
    async def place(order: PlaceOrder) -> None:
        called.append(order.order_id)
        if order.order_id == "fails":
            raise SimulatedError
        done.set()

    async with sales:
        await sales.send_local(PlaceOrder("fails"))
        await eventually(lambda: any("is passed over for 5 s" in text for text in critical))
        await sales.send_local(PlaceOrder("1"))
        await within(done.wait())
    assert called[:4] == ["fails"] * 3 + ["1"]
    assert len(await endpoints.backend.rows("Sales")) == 1


async def test_copies_are_changed_before_they_leave_and_nothing_else_is(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", recoverability=NO_RETRIES, audit_queue="audit")
    sales.use(Redaction())
    seen: list[tuple[str, str | None]] = []

    @sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        seen.append((order.order_id, context.headers.get("Shop.Name")))
        if "fails" in order.order_id:
            raise SimulatedError

    async with sales:
        for order in ("1", "1 fails"):
            await sales.send_local(PlaceOrder(order), headers={"Shop.Name": "Ann"})
        await until_there_are(1, backend, "audit")
        await until_there_are(1, backend, ERROR)
        await backend.insert("Sales", '{"Shop.Name": 1', b"1")  # of which no header can be read
        await until_there_are(2, backend, ERROR)
    assert sorted(seen) == [("1", "Ann"), ("1 fails", "Ann")]
    copies = [*await backend.rows("audit"), *await backend.rows(ERROR)]
    assert [b"1" in (row.body or b"") for row in copies] == [False] * 3
    assert [row.headers["Shop.Copied"] for row in copies] == ["False", "True", "True"]
    assert not any("Shop.Name" in row.headers for row in copies)
