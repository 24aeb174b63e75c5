"""Contracts of several projects are one system, and its picture shows who sends what to whom."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

import rowbus
from rowbus import contracts
from rowbus.contracts import Contract, Message
from rowbus.contracts.map import ELSEWHERE, flows
from rowbus.messages.conventions import Kind
from tests.contracts import shop
from tests.fixtures.command_line import CommandLine

SALES, BILLING = contracts.describe(shop.sales), contracts.describe(shop.billing)


def pairs(contract: Contract) -> set[tuple[str, str, str]]:
    return {(one.message, one.sender, one.receiver) for one in flows(contract)}


def test_contracts_that_were_described_apart_are_the_one_of_both() -> None:
    both = contracts.merge(SALES, BILLING)

    whole = contracts.describe(shop.sales, shop.billing)
    assert both._replace(uses=()) == whole._replace(uses=())
    assert set(both.uses) == set(whole.uses)


def test_a_contract_merged_with_itself_stays_as_it_is() -> None:
    assert contracts.merge(SALES, SALES) == SALES


def test_classes_of_one_name_that_differ_are_both_kept() -> None:
    def of(name: str, field: str) -> Contract:
        line = {"type": "object", "properties": {field: {"type": "string"}}}
        order = {"type": "object", "properties": {"line": {"$ref": "#/components/schemas/Line"}}}
        payload = {"$ref": f"#/components/schemas/{name}"}
        return Contract(
            name, (), (Message(name, Kind.COMMAND, (), payload),), (), {"Line": line, name: order}
        )

    both = contracts.merge(of("A", "sku"), of("B", "code"))

    found = {
        one.name: both.resolved(both.resolved(one.payload)["properties"]["line"])["properties"]
        for one in both.messages
    }
    assert found == {"A": {"sku": {"type": "string"}}, "B": {"code": {"type": "string"}}}


def test_a_class_that_refers_to_one_that_differs_is_another_too() -> None:
    def of(name: str, field: str) -> Contract:
        line = {"type": "object", "properties": {field: {"type": "string"}}}
        order = {"type": "object", "properties": {"line": {"$ref": "#/components/schemas/Line"}}}
        payload = {"$ref": "#/components/schemas/Order"}
        schemas: dict[str, dict[str, Any]] = {"Line": line, "Line_2": {"title": field}, "Order": order}
        return Contract(name, (), (Message(name, Kind.COMMAND, (), payload),), (), schemas)

    both = contracts.merge(of("A", "sku"), of("B", "code"))

    found = {
        one.name: both.resolved(both.resolved(one.payload)["properties"]["line"])["properties"]
        for one in both.messages
    }
    assert found == {"A": {"sku": {"type": "string"}}, "B": {"code": {"type": "string"}}}
    assert [one["title"] for one in both.schemas.values() if "title" in one] == ["sku", "code"]
    assert contracts.merge(both, of("B", "code")).schemas == both.schemas


def test_a_message_goes_to_who_handles_it_and_an_event_to_who_subscribes_to_it_or_a_parent() -> None:
    found = pairs(contracts.merge(SALES, BILLING))

    assert {
        ("Shop.ChargeCard", "Sales", "Billing"),
        ("Shop.CardCharged", "Billing", "Sales"),
        ("Shop.OrderPlaced", "Sales", "Billing"),
        ("Shop.PaymentOverdue", "Sales", "Sales"),
        ("Shop.Report", "Sales", "Billing"),
    } <= found
    assert ("Shop.PlaceOrder", ELSEWHERE, "Sales") in found
    assert not [one for one in found if one[0] == "Shop.IOrderEvent"], "it comes as Shop.OrderPlaced"


def test_who_is_in_no_contract_is_elsewhere() -> None:
    assert ("Shop.ChargeCard", "Sales", ELSEWHERE) in pairs(SALES)
    assert ("Shop.ChargeCard", ELSEWHERE, "Billing") in pairs(BILLING)


def test_the_picture_has_a_line_for_each_endpoint_and_an_arrow_for_each_message() -> None:
    picture = ET.fromstring(contracts.to_svg(contracts.merge(SALES, BILLING, title="The shop")))  # noqa: S314 - ours

    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:3] == ["Sales", "Billing", ELSEWHERE]
    assert len(texts) == 3 + len(flows(contracts.merge(SALES, BILLING)))
    assert "Shop.ChargeCard (command)" in texts


def test_names_stay_text_in_the_picture() -> None:
    endpoint = rowbus.Endpoint("Odd", database="postgresql://nowhere/shop")

    @endpoint.handler("Shop.<script>&")
    def take(message: dict[str, object]) -> None:
        pass

    picture = contracts.to_svg(contracts.describe(endpoint, title="<b>"))
    assert "<script" not in picture
    assert "<b>" not in picture
    assert ET.fromstring(picture) is not None  # noqa: S314 - ours


@pytest.mark.one_version
def test_the_command_draws_documents_and_joins_them(rowbus: CommandLine) -> None:
    for name, contract in (("sales.json", SALES), ("billing.json", BILLING)):
        (rowbus.folder / name).write_text(json.dumps(contracts.to_asyncapi(contract)))
    drawn = rowbus("contracts", "map", "sales.json", "billing.json", "--title", "Shop")
    joined = rowbus("contracts", "map", "sales.json", "billing.json", "--title", "Shop", "--json")

    both = contracts.merge(SALES, BILLING, title="Shop")
    assert drawn.stdout == contracts.to_svg(both)
    assert contracts.from_asyncapi(json.loads(joined.stdout)) == both
