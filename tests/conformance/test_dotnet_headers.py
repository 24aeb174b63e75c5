"""Rows of ours beside those that .NET wrote when it did the same: header by header.

The rows are those of tests/golden/dotnet; what varies from run to run is replaced by its form, and the differences that
are right are those of tests/conformance/expected_header_differences.py.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints
from tests.conformance.expected_header_differences import ABSENT, EXPECTED
from tests.conformance.header_forms import form_of, scene_of
from tests.conformance.header_scenes import (
    AUDIT,
    BILLING,
    RETRIES,
    SALES,
    SOON,
    WEB,
    CancelOrder,
    CardCharged,
    LongOffer,
    OrderAccepted,
    OrderShipped,
    PlaceOrder,
    PriceQuote,
    Scene,
    Written,
    one,
)
from tests.fixtures.dotnet_rows import rows, scenario
from tests.sagas.nservicebus import order_saga

if TYPE_CHECKING:
    from rowbus.sagas.definition import Layout

pytestmark = pytest.mark.only(
    "PostgreSQL", reason="the rows are of PostgreSQL's transport, addresses included"
)

Headers = dict[str, str | None]
TEXTS: Final = {
    "retries": "The stock says: always",
    "tracing-failures": "The stock says: traced",
    "errors": "The order cannot be placed.",
}
"""Texts of the exceptions in the golden rows."""


class Compared(NamedTuple):
    """Rows that a scene wrote, and per kind of row .NET's (scenario, order) and our headers."""

    written: list[Written]
    kinds: dict[str, tuple[str, int, Headers]]


Play = Callable[[Scene], Awaitable[Compared]]


async def conversation(scene: Scene) -> Compared:
    """Send from Web to Sales, which replies and publishes; Web's handler of the reply sends once more."""
    web, sales = scene.endpoint(WEB, audit_queue=AUDIT), scene.endpoint(SALES, audit_queue=AUDIT)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted())
        await context.publish(OrderShipped())

    @sales.handler
    async def cancel(message: CancelOrder) -> None: ...

    @web.handler
    async def accepted(message: OrderAccepted, context: rowbus.Context) -> None:
        await context.send(SALES, CancelOrder())

    await scene.create(BILLING, AUDIT)
    async with sales, web:
        await scene.backend.subscribe(BILLING, "Shop.IOrderEvent")
        await scene.record(SALES, WEB, BILLING, AUDIT)
        await web.send(SALES, PlaceOrder())
        written = await scene.wait_for((AUDIT, 3))
    return Compared(
        written,
        {
            "send": ("reply", 1, one(written, SALES, "Shop.PlaceOrder")),
            "audit of a send": ("reply", 2, one(written, AUDIT, "Shop.PlaceOrder")),
            "reply": ("reply", 3, one(written, WEB, "Shop.OrderAccepted")),
            "audit of a reply": ("reply", 4, one(written, AUDIT, "Shop.OrderAccepted")),
            "send of a handler": ("reply", 5, one(written, SALES, "Shop.CancelOrder")),
            "audit of a send of a handler": ("reply", 6, one(written, AUDIT, "Shop.CancelOrder")),
            "publish of a handler": ("outbox", 6, one(written, BILLING, "Shop.OrderShipped")),
        },
    )


async def sends(scene: Scene) -> Compared:
    """Send and publish outside of handlers, and as a bare client."""
    web, sales = scene.endpoint(WEB), scene.endpoint(SALES)
    client = rowbus.AsyncClient(scene.backend.connection, endpoint="Importer")
    await scene.create(SALES, "Shipping")
    async with web, sales:
        await scene.backend.subscribe("Shipping", "Shop.OrderEvent")
        await scene.record(SALES, "Shipping")
        await sales.publish(OrderShipped())
        await web.send(SALES, PriceQuote(), time_to_be_received=timedelta(seconds=30))
        lasting = timedelta(days=40, milliseconds=500)
        await web.send(SALES, LongOffer(), time_to_be_received=lasting)
        await client.send(SALES, PlaceOrder())
        written = await scene.wait_for((SALES, 3), ("Shipping", 1))
    return Compared(
        written,
        {
            "publish": ("publish-inheritance", 1, one(written, "Shipping", "Shop.OrderShipped")),
            "send with a time to be received": (
                "time-to-be-received",
                1,
                one(written, SALES, "Shop.PriceQuote"),
            ),
            "send with a long time to be received": (
                "time-to-be-received",
                2,
                one(written, SALES, "Shop.LongOffer"),
            ),
            "send of a client": ("send-only", 1, one(written, SALES, "Shop.PlaceOrder")),
        },
    )


async def delays(scene: Scene) -> Compared:
    """Send later from Web to Sales, whose handler sends to itself later."""
    web, sales = scene.endpoint(WEB), scene.endpoint(SALES, audit_queue=AUDIT)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send(SALES, CancelOrder(), delay=SOON)

    @sales.handler
    async def cancel(message: CancelOrder) -> None: ...

    await scene.create(AUDIT)
    async with sales, web:
        await scene.record(SALES, f"{SALES}.Delayed", f"{WEB}.Delayed", AUDIT)
        await web.send(SALES, PlaceOrder(), delay=SOON)
        written = await scene.wait_for((AUDIT, 2))
    return Compared(
        written,
        {
            "delayed send": ("delayed", 1, one(written, "Web.Delayed", "Shop.PlaceOrder")),
            "delayed send, delivered": ("delayed", 4, one(written, SALES, "Shop.PlaceOrder")),
            "audit of a delayed send": ("delayed", 6, one(written, AUDIT, "Shop.PlaceOrder")),
            "delayed send of a handler": ("delayed", 8, one(written, "Sales.Delayed", "Shop.CancelOrder")),
            "audit of a delayed send of a handler": ("delayed", 14, one(written, AUDIT, "Shop.CancelOrder")),
        },
    )


async def dotnets_delay(scene: Scene) -> Compared:
    """Have our mover deliver a delayed row of .NET's, unqualified destination and all."""
    web = scene.endpoint(WEB)
    await scene.create(SALES)
    async with web:
        await scene.record(SALES)
        row = rows("delayed")[0]
        await scene.backend.insert_delayed(f"{WEB}.Delayed", row.headers_text, row.body, due_in=0.05)
        written = await scene.wait_for((SALES, 1))
    return Compared(
        written,
        {"delayed send of .NET's, moved here": ("delayed", 4, one(written, SALES, "Shop.PlaceOrder"))},
    )


def failures(name: str, *, of: str, inner: str | None = None) -> Play:
    """Return a scene: a message of .NET's that fails here as it failed there, with two delayed retries."""

    async def play(scene: Scene) -> Compared:
        sales = scene.endpoint(SALES, recoverability=NO_RETRIES if inner else RETRIES)

        @sales.handler(of)
        async def fail(message: dict[str, Any]) -> None:
            if not inner:
                raise RuntimeError(TEXTS[name])
            try:
                int(inner)
            except ValueError as error:
                raise RuntimeError(TEXTS[name]) from error

        async with sales:
            await scene.record(SALES, f"{SALES}.Delayed", ERROR)
            await scene.put(SALES, name, 2 if name == "errors" else 1)
            written = await scene.wait_for((ERROR, 1))
        failed = one(written, ERROR, of)
        if inner:
            return Compared(
                written, {"error copy with an inner exception": ("errors", _failed("FailInner"), failed)}
            )
        delayed, again = (one(written, "Sales.Delayed", of, last=last) for last in (False, True))
        if name == "tracing-failures":
            return Compared(
                written,
                {
                    "delayed retry with a trace": (name, 2, delayed),
                    "error copy with a trace": (name, 4, failed),
                },
            )
        return Compared(
            written,
            {
                "first delayed retry": (name, 2, delayed),
                "second delayed retry": (name, 4, again),
                "delayed retry, back in its queue": (name, 5, one(written, SALES, of, last=True)),
                "error copy": (name, 6, failed),
            },
        )

    return play


def _failed(type: str) -> int:
    """Return which golden row is the error copy of a message."""
    found = [
        order
        for order, row in enumerate(rows("errors"), 1)
        if row.table == ERROR and f"Shop.{type}," in str((row.headers or {})[Header.ENCLOSED_MESSAGE_TYPES])
    ]
    return found[0]


async def answers(scene: Scene) -> Compared:
    """Answer the requests of .NET's callbacks with a message and with a number, and audit such an answer."""
    sales = scene.endpoint(SALES, audit_queue=AUDIT)

    @sales.handler("Shop.CheckStock")
    async def check(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply({"Level": 1}, type="Shop.StockLevel")

    @sales.handler("Shop.AskNumber")
    async def ask(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply(rowbus.ReturnCode(42))

    web = scene.endpoint(WEB, audit_queue=AUDIT)
    await scene.create("Web.web01", AUDIT)
    async with sales, web:
        await scene.record("Web.web01", AUDIT)
        await scene.put(SALES, "callbacks", 1)
        await scene.put(SALES, "callbacks", 5)
        await scene.put(WEB, "callbacks", 7)
        written = await scene.wait_for(("Web.web01", 2), (AUDIT, 3))
    return Compared(
        written,
        {
            "answer that is a message": ("callbacks", 3, one(written, "Web.web01", "Shop.StockLevel")),
            "answer that is a number": ("callbacks", 7, one(written, "Web.web01")),
            "audit of an answer that is a number": ("callbacks", 8, one(written, AUDIT)),
        },
    )


async def retried(scene: Scene) -> Compared:
    """Handle a message that ServiceControl had retried, and then a failure that was put back by hand."""
    sales = scene.endpoint(SALES, audit_queue=AUDIT)

    @sales.handler("Shop.PlaceOrder")
    async def place(message: dict[str, Any]) -> None: ...

    await scene.create(AUDIT)
    async with sales:
        await scene.record(AUDIT, ERROR)
        await scene.put(SALES, "retry-acknowledgement", 1)
        written = await scene.wait_for((AUDIT, 1), (ERROR, 1))
        await scene.put(SALES, "poison-retry-of-failed", 3)
        written = await scene.wait_for((AUDIT, 2))
    return Compared(
        written,
        {
            "audit of a retried message": (
                "retry-acknowledgement",
                2,
                one(written, AUDIT, "Shop.PlaceOrder"),
            ),
            "acknowledgement of a retry": ("retry-acknowledgement", 3, one(written, ERROR)),
            "audit of a failure put back": (
                "poison-retry-of-failed",
                4,
                one(written, AUDIT, "Shop.PlaceOrder", last=True),
            ),
        },
    )


async def saga(scene: Scene) -> Compared:
    """Answer a saga's command."""
    billing = scene.endpoint(BILLING, audit_queue=AUDIT)

    @billing.handler("Shop.ChargeCard")
    async def charge(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply(CardCharged())

    await scene.create(SALES, AUDIT)
    async with billing:
        await scene.record(SALES, AUDIT)
        await scene.put(BILLING, "saga", 7)
        written = await scene.wait_for((SALES, 1), (AUDIT, 1))
    return Compared(
        written,
        {
            "reply to a saga": ("saga", 9, one(written, SALES, "Shop.CardCharged")),
            "audit of a saga's command": ("saga", 8, one(written, AUDIT, "Shop.ChargeCard")),
        },
    )


def process(layout: Layout) -> Play:
    """Return a scene in which Sales has the saga, whose state is in this layout."""

    async def play(scene: Scene) -> Compared:
        """Start the order, charge the card, wait for the timeout."""
        sales = scene.endpoint(SALES)
        sales.add(order_saga(layout, SOON))
        await scene.create(BILLING, WEB)
        async with sales:
            await scene.backend.subscribe(BILLING, "Shop.OrderClosed")
            await scene.record(BILLING, WEB, f"{SALES}.Delayed")
            await scene.put(SALES, "saga", 2)
            written = await scene.wait_for((BILLING, 2), (WEB, 1), ("Sales.Delayed", 1))
        return Compared(
            written,
            {
                "command of a saga": ("saga", 7, one(written, BILLING, "Shop.ChargeCard")),
                "timeout of a saga": ("saga", 6, one(written, "Sales.Delayed", "Shop.BuyersRemorseOver")),
                "event of a saga": ("saga", 16, one(written, BILLING, "Shop.OrderClosed")),
                "reply of a saga to its originator": ("saga", 15, one(written, WEB, "Shop.OrderCompleted")),
            },
        )

    return play


async def traced(scene: Scene) -> Compared:
    """Reply, send and publish in the handler of a message with a trace."""
    sales = scene.endpoint(SALES)

    @sales.handler("Shop.PlaceOrder")
    async def place(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply(OrderAccepted())
        await context.send(BILLING, CancelOrder())
        await context.publish({"Id": "1"}, type="Shop.OrderPriced")
        await context.send(BILLING, CancelOrder(), delay=timedelta(hours=1))

    await scene.create(BILLING, WEB)
    async with sales:
        await scene.backend.subscribe(BILLING, "Shop.OrderPriced")
        await scene.record(BILLING, WEB, f"{SALES}.Delayed")
        await scene.put(SALES, "tracing", 1)
        written = await scene.wait_for((BILLING, 2), (WEB, 1), ("Sales.Delayed", 1))
    return Compared(
        written,
        {
            "reply with a trace": ("tracing", 10, one(written, WEB, "Shop.OrderAccepted")),
            "send with a trace": ("tracing", 9, one(written, BILLING, "Shop.CancelOrder")),
            "publish with a trace": ("tracing", 11, one(written, BILLING, "Shop.OrderPriced")),
        },
    )


SCENES: Final[dict[str, Play]] = {
    "conversation": conversation,
    "sends": sends,
    "delays": delays,
    "delay of .NET's": dotnets_delay,
    "retries": failures("retries", of="Shop.FailSimple"),
    "retries with a trace": failures("tracing-failures", of="Shop.FailSimple"),
    "inner exceptions": failures("errors", of="Shop.FailInner", inner="forty-two"),
    "answers": answers,
    "retried": retried,
    "saga": saga,
    "saga of ours": process("rowbus"),
    "saga of ours, in .NET's layout": process("nservicebus"),
    "traces": traced,
}


def differences(theirs: Mapping[str, str | None], ours: Mapping[str, str | None]) -> set[tuple[str, ...]]:
    """Return each header whose form differs: its name, .NET's form and ours."""
    names = theirs.keys() | ours.keys()
    found = {(name, str(theirs.get(name, ABSENT)), str(ours.get(name, ABSENT))) for name in names}
    return {(name, one, another) for name, one, another in found if one != another}


def dotnet_form(name: str, order: int) -> Headers:
    """Return the form of a golden row's headers."""
    golden = rows(name)
    return form_of(golden[order - 1].headers or {}, scene_of(row.headers for row in golden if row.headers))


@pytest.mark.parametrize("play", SCENES.values(), ids=SCENES)
async def test_our_rows_have_dotnets_headers_but_for_the_expected_differences(
    endpoints: Endpoints, play: Play
) -> None:
    scene = Scene(endpoints)

    compared = await play(scene)

    inserted = [row.headers or {} for name, order, _ in compared.kinds.values() for row in rows(name)[:order]]
    named = scene_of([*inserted, *(row.headers for row in compared.written)])
    found = {
        (kind, *difference)
        for kind, (name, order, ours) in compared.kinds.items()
        for difference in differences(dotnet_form(name, order), form_of(ours, named))
    }
    expected = {
        (kind, difference.header, difference.dotnet, difference.rowbus)
        for difference, kinds in EXPECTED.items()
        for kind in kinds & compared.kinds.keys()
    }
    assert sorted(found - expected) == [], "differences that nobody expects"
    assert sorted(expected - found) == [], "differences that are expected and no longer there"


async def test_a_subscription_is_the_row_that_dotnet_writes(endpoints: Endpoints) -> None:
    scene = Scene(endpoints)
    billing = scene.endpoint(BILLING, discriminator="b1")
    facts = scenario("subscription-rows")["facts"]

    @billing.handler("Shop.OrderShipped", "Shop.OrderPriced", "Shop.StockChanged", subscribe=True)
    async def take(message: dict[str, Any]) -> None: ...

    async with billing:
        texts = await scene.backend.values(
            "select json_build_object('queueaddress', queueaddress, 'endpoint', endpoint, 'topic', topic)::text"
            ' from "SubscriptionRouting" order by topic'
        )
    assert [json.loads(text) for text in texts] == facts["subscription_rows_after_start"]
