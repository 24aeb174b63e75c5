"""A contract is written as AsyncAPI 3, and read back equal.

The structure is checked here by hand: every reference leads somewhere, every key is one that the format allows.
`test_asyncapi_schema.py` has AsyncAPI's own schema judge the documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest

import rowbus
from rowbus import contracts
from rowbus.contracts.asyncapi import OURS
from rowbus.contracts.contract import Use
from rowbus.errors import ConfigurationError
from tests.contracts import shop
from tests.fixtures.every import every

ORDERS = rowbus.Log("postgresql://nowhere/shop", "orders")


@ORDERS.consumer("revenue")
def count(event: rowbus.Event) -> None:
    pass


SHOP = contracts.describe(shop.sales, shop.billing, ORDERS, title="Shop")
DOCUMENT: dict[str, Any] = json.loads(json.dumps(contracts.to_asyncapi(SHOP)))
KEY = re.compile(r"[A-Za-z0-9._-]+")


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def found(document: object, reference: str) -> bool:
    at: Any = document
    for part in reference.removeprefix("#/").split("/"):
        at = at.get(part) if isinstance(at, dict) else None
    return at is not None


def test_a_contract_is_read_back_as_it_was_written() -> None:
    assert contracts.from_asyncapi(DOCUMENT) == SHOP


def test_every_reference_leads_somewhere() -> None:
    assert not [one for one in references(DOCUMENT) if not found(DOCUMENT, one)]


def test_keys_are_those_that_the_format_allows() -> None:
    parts = (DOCUMENT["channels"], DOCUMENT["operations"], *DOCUMENT["components"].values())

    assert not [key for part in parts for key in part if KEY.fullmatch(key) is None]
    assert set(DOCUMENT) == {
        "asyncapi",
        "info",
        "defaultContentType",
        "channels",
        "operations",
        "components",
    }
    assert {one["action"] for one in DOCUMENT["operations"].values()} == {"send", "receive"}


def test_an_operations_messages_are_those_of_its_channel() -> None:
    for operation in DOCUMENT["operations"].values():
        channel = operation["channel"]["$ref"]
        assert all(one["$ref"].startswith(f"{channel}/messages/") for one in operation.get("messages", ()))


def test_a_command_goes_to_the_queue_of_who_handles_it_and_an_event_to_its_topic() -> None:
    operations = DOCUMENT["operations"]

    assert operations["Sales.send.Shop.ChargeCard"]["channel"] == {"$ref": "#/channels/Billing"}
    assert operations["Sales.publish.Shop.OrderPlaced"]["channel"] == {
        "$ref": "#/channels/topic.Shop.OrderPlaced"
    }
    assert operations["Billing.reply.Shop.CardCharged"]["channel"] == {"$ref": "#/channels/replies"}
    assert DOCUMENT["channels"]["Billing"]["address"] == '"public"."Billing"'


def test_a_document_of_others_is_read_as_far_as_it_goes() -> None:
    document = {
        "asyncapi": "3.1.0",
        "info": {"title": "Lights", "version": "1"},
        "channels": {
            "lights": {"address": "lights/on", "messages": {"On": {"payload": {"type": "object"}}}},
        },
        "operations": {
            "turn": {"action": "receive", "channel": {"$ref": "#/channels/lights"}},
        },
    }

    read = contracts.from_asyncapi(document)
    assert [(one.name, one.payload) for one in read.messages] == [("On", {"type": "object"})]
    assert read.uses == (contracts.Use("Lights", contracts.Action.HANDLE, "On"),)


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"asyncapi": "3.0.0", "components": {"schemas": {"A": schema}}}


@every(
    "document, told",
    [
        ({"openapi": "3.1.0"}, "no AsyncAPI document: the key asyncapi is missing"),
        ({"asyncapi": "2.6.0"}, r"AsyncAPI 2\.6\.0; what is read is AsyncAPI 3"),
        ([], r"Where AsyncAPI has an object, the document has '\[\]'"),
        ({"asyncapi": "3.0.0", "channels": "none"}, "the document has 'none'"),
        (_schema({"properties": {"id": 5}}), r"Expected `object`, got `int`.*properties"),
        (_schema({"anyOf": {"type": "string"}}), r"Expected `array`, got `object`.*anyOf"),
        (_schema({"type": [{}]}), r"Expected `str`, got `object`.*type"),
        (_schema({"minItems": "many"}), r"Expected `int`, got `str`.*minItems"),
        (_schema(reduce(lambda inner, _: {"items": inner}, range(500), {})), "more than 100 levels"),
        ({"asyncapi": "3.0.0", "operations": {"a": {OURS: {"action": "handle"}}}}, "missing 2 required"),
        (
            {"asyncapi": "3.0.0", "operations": {"a": {OURS: dict.fromkeys(Use._fields[:3], ())}}},
            "Expected `str`, got `array`",
        ),
    ],
)
def test_what_is_no_document_is_refused(document: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        contracts.from_asyncapi(document)
