"""The page Contracts shows what endpoints published, and serves it as AsyncAPI and as a picture."""

from __future__ import annotations

import asyncio
import html
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus import contracts
from rowbus.contracts.conflicts import find_conflicts
from rowbus.contracts.contract import PublishedContract
from rowbus.transport.published_contracts.table import LARGEST
from rowbus.web.contracts import MOST, types_of
from tests.fixtures.every import every
from tests.fixtures.steps import steps_of
from tests.web.conftest import browser
from tests.web.failures import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import httpx

    from tests.fixtures.command_line import Ask, CommandLine

pytestmark = pytest.mark.one_version

HOSTILE = "<script>alert(1)</script>"


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    """A customer wants this."""

    order_id: str
    amounts: list[Decimal]
    note: str | None = None


@rowbus.event("Shop.OrderPlaced")
@dataclass
class OrderPlaced:
    order_id: str


def shop(database: str) -> tuple[rowbus.Endpoint, rowbus.Endpoint]:
    sales = rowbus.Endpoint("Sales", database=database)
    billing = rowbus.Endpoint("Billing", database=database)

    @sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.publish(OrderPlaced(order.order_id))

    @billing.handler
    async def bill(placed: OrderPlaced) -> None: ...

    @billing.handler(HOSTILE)
    async def nothing(message: dict[str, object]) -> None: ...

    return sales, billing


async def opened(client: httpx.AsyncClient, path: str, **query: str) -> httpx.Response:
    answer = await client.get(path, params=query or None)
    assert answer.status_code == 200, answer.text
    return answer


async def test_what_endpoints_published_is_shown_and_served(database: str) -> None:
    sales, billing = shop(database)
    async with sales, billing, browser(database) as client:
        page = (await opened(client, "/contracts")).text
        found = (await opened(client, "/contracts", text="placeorder")).text
        document = await opened(client, "/contracts/asyncapi.json")
        picture = await opened(client, "/contracts/map.svg")

    shown = html.unescape(text_of(page))
    assert "A customer wants this." in shown
    assert "Sales publishes" in shown
    assert "Billing handles ( its failures )" in shown
    assert "amounts array of number (decimal) required" in shown
    assert "note string or null" in shown
    assert "/queue?name=%22public%22.%22Billing%22" in page
    assert "/failed?failed_in=%22public%22.%22Billing%22" in page
    assert HOSTILE not in page + found + picture.text
    assert ("Shop.PlaceOrder" in found, "Shop.OrderPlaced" in found) == (True, False)
    told = contracts.from_asyncapi(document.json())
    assert set(told.uses) == set(contracts.describe(sales, billing).uses)
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "Shop.OrderPlaced (event)" in picture.text


async def test_a_database_in_which_nothing_is_published_says_so(database: str, ask: Ask) -> None:
    async with browser(database) as client:
        shown = text_of((await opened(client, "/contracts")).text)
        await opened(client, "/contracts/asyncapi.json")
        await opened(client, "/contracts/map.svg")

    assert "No endpoint has published its contract" in shown
    assert ask("select to_regclass('\"Rowbus.Contracts\"')") == [(None,)]


def _of_schema(schema: dict[str, object]) -> str:
    schemas = {"Deep": schema, **{f"S{n}": _pair(n + 1) for n in range(40)}, "S40": {"type": "string"}}
    messages = {"Shop.PlaceOrder": {"payload": schema}, "Shop.Wide": {"payload": _pair(0)}}
    operations = {
        f"{action} {name}": {"x-rowbus": {"endpoint": "Evil", "action": action, "message": name}}
        for action in ("send", "handle")
        for name in messages
    }
    components = {"schemas": schemas, "messages": messages}
    return json.dumps({"asyncapi": "3.0.0", "components": components, "operations": operations})


def _pair(number: int) -> dict[str, object]:
    """Return a schema that leads to another along two ways."""
    one = {"$ref": f"#/components/schemas/S{number}"}
    return {"type": "object", "properties": {"left": one, "right": one}, "required": ["left", "right"]}


def _with_types(names: Iterable[str], *, fields: int = 1, padding: int = 0) -> str:
    properties = {f"field{number}": {"type": "string"} for number in range(fields)}
    messages = {name: {"name": name, "payload": {"properties": properties}} for name in names}
    operations = {
        f"{action} {name}": {"x-rowbus": {"endpoint": "Sales", "action": action, "message": name}}
        for action in ("send", "handle")
        for name in messages
    }
    components = {"messages": messages}
    document = {"asyncapi": "3.0.0", "components": components, "operations": operations, "x": "x" * padding}
    return json.dumps(document)


def _of_types(count: int, *, fields: int = 1) -> contracts.Contract:
    names = (f"Shop.Type{number}" for number in range(count))
    return contracts.from_asyncapi(json.loads(_with_types(names, fields=fields)))


def _conflicts(contract: contracts.Contract) -> object:
    now = datetime.now(UTC)
    return find_conflicts([PublishedContract(name, "1", contract, now, now) for name in ("Sales", "Billing")])


@every("work", [types_of, contracts.to_svg, _conflicts])
def test_what_a_page_shows_of_many_types_takes_steps_for_each_once(
    work: Callable[[contracts.Contract], object],
) -> None:
    """Of 2,000 types, it took two seconds each, on the event loop: each type looked through all uses."""
    few, many = _of_types(2 * MOST), _of_types(8 * MOST)

    assert steps_of(lambda: work(many)) < 5 * steps_of(lambda: work(few))


def test_a_page_has_some_types_and_fields_and_says_how_many_more_there_are() -> None:
    contract = _of_types(MOST + 1, fields=MOST + 1)
    shown, found = types_of(contract), types_of(contract, f"type{MOST - 1}")

    assert (len(shown.types), shown.left) == (MOST, 1)
    assert {len(one.fields) for one in shown.types} == {MOST}
    assert [one.message.name for one in found.types] == [f"Shop.Type{MOST - 1}"]


@every("word", ["anyOf", "oneOf"])
def test_choices_are_told_whichever_word_a_document_has_for_them(word: str) -> None:
    document = _of_schema({"properties": {"note": {word: [{"type": "string"}, {"type": "null"}]}}})
    found = types_of(contracts.from_asyncapi(json.loads(document)), "PlaceOrder")

    assert [field.type for one in found.types for field in one.fields] == ["string or null"]


PUBLISHED = [
    _of_schema({"properties": {"order_id": 5}}),
    _of_schema({"anyOf": [{"$ref": "#/components/schemas/Deep"}]}),
    _of_schema({"type": "array", "minItems": 10**9, "items": {"type": "string", "minLength": 10**9}}),
    _of_schema({"type": {}, "required": 5, "enum": 5}),
    "[" * 100_000,
    _with_types(["Shop.TooLong"], padding=LARGEST),
]


async def test_whatever_is_published_the_page_and_the_doctor_go_on(
    database: str, ask: Ask, rowbus: CommandLine
) -> None:
    sales, billing = shop(database)
    async with sales, billing, browser(database) as client:
        for number, document in enumerate(PUBLISHED):
            ask(f"""insert into "Rowbus.Contracts" values ('E{number}', '1', '{document}') returning 1""")
        ask(
            "update \"Rowbus.Contracts\" set published = '0044-03-15 BC', seen = 'infinity' where endpoint = 'E1'"
        )
        page = (await opened(client, "/contracts")).text
        await opened(client, "/contracts/asyncapi.json")
        await opened(client, "/contracts/map.svg")
        told = await asyncio.to_thread(rowbus, "doctor")

    assert "Shop.OrderPlaced" in page
    assert "Shop.Wide" in page
    assert "Shop.TooLong" not in page
    assert "Traceback" not in told.stderr
    assert "contract" in told.stdout
