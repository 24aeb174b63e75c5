"""A body fits the schema of its class: what Rowbus writes, of whatever class, and what .NET wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import rowbus
from rowbus import contracts
from rowbus.contracts import Contract, Message
from rowbus.contracts.schemas import Schemas
from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.shape import Names
from rowbus.messages.conventions import Kind
from tests.fixtures.dotnet_rows import rows
from tests.fixtures.every import every
from tests.fixtures.message_classes import messages
from tests.fixtures.pairs import effort
from tests.fixtures.shop_types import ALL, COMMON, classes

NAME = "Shop.Message"
SERIALIZERS = [rowbus.Json(), rowbus.Json(rename="pascal"), rowbus.Json(rename="camel", ignore_case=True)]
CHECKS = list(HealthCheck)


def contract_of(kind: type, names: Names) -> Contract:
    schemas = Schemas()
    payload = schemas.of_message(NAME, kind, names)
    return Contract("Test", (), (Message(NAME, Kind.MESSAGE, (), payload),), (), schemas.found)


def misfits(kind: type, body: bytes, serializer: rowbus.Json) -> list[str]:
    contract = contract_of(kind, serializer.names_of(kind))
    json.dumps(contract.schemas)
    return list(map(str, contracts.misfits(contract, NAME, msgspec.json.decode(body))))


def check(message: object) -> None:
    kind = type(message)
    for serializer in SERIALIZERS:
        try:
            serializer.reader(kind)
        except ConfigurationError:
            continue
        body = serializer.write(message)
        assert not misfits(kind, body, serializer), body


@given(messages())
@settings(
    max_examples=50, deadline=None, suppress_health_check=CHECKS, phases=[Phase.explicit, Phase.generate]
)
def test_a_body_fits_the_schema_of_its_class(message: object) -> None:
    check(message)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@given(messages())
@settings(max_examples=effort(500, 20_000), deadline=None, suppress_health_check=CHECKS)
def test_bodies_of_many_classes_fit_their_schemas(message: object) -> None:
    check(message)


@every("kind", ["dataclass", "struct", "pydantic"])
@every(
    "name, properties",
    [
        ("types-systemjson", ALL),
        ("common-systemjson", COMMON),
        ("types-newtonsoft", ALL),
        ("common-newtonsoft", COMMON),
    ],
)
def test_a_body_that_dotnet_wrote_fits_the_schema_of_its_class(
    name: str, properties: dict[str, Any], kind: str
) -> None:
    body = rows(name)[0].body
    assert body is not None

    assert misfits(classes("Shop", properties)[kind], body.removeprefix(b"\xef\xbb\xbf"), rowbus.Json()) == []


@dataclass
class Line:
    sku: str
    wait: timedelta = timedelta()


@dataclass
class Order:
    order_id: int
    lines: list[Line]
    note: str | None = None


class Bounded(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    count: int = pydantic.Field(ge=1, le=9)
    code: str = pydantic.Field(pattern="^[A-Z]+$")


@every(
    "kind, body, told",
    [
        (Order, {"lines": []}, ["`order_id` is required"]),
        (Order, {"order_id": "x", "lines": []}, ['`order_id` is "x", and has to be integer']),
        (Order, {"order_id": 1, "lines": [{"sku": 2}]}, ["`lines[0].sku` is 2, and has to be string"]),
        (Order, {"order_id": 1, "lines": [], "note": 5}, ["`note` is 5, and has to be string"]),
        (
            Order,
            {"order_id": 1, "lines": [{"sku": "a", "wait": "soon"}]},
            ['`lines[0].wait` is "soon", and has to be string (time-span)'],
        ),
        (Bounded, {"count": 10, "code": "A"}, ["`count` is 10, and breaks maximum 9"]),
        (Bounded, {"count": 1, "code": "a"}, ['`code` is "a", and breaks pattern ^[A-Z]+$']),
        (
            Bounded,
            {"count": 1, "code": "A", "more": 1},
            ["`more` is not known, and none but known fields are read"],
        ),
        (Order, [], ["the body is [], and has to be object"]),
    ],
)
def test_what_does_not_fit_is_told_with_its_field(kind: type, body: object, told: list[str]) -> None:
    assert misfits(kind, json.dumps(body).encode(), rowbus.Json()) == told


@every("kind", [Order, Bounded])
def test_a_class_within_two_others_is_there_once_under_each_convention(kind: type) -> None:
    schemas = Schemas()
    first = schemas.of_message("A", kind, Names())
    assert schemas.of_message("B", kind, Names()) == first
    assert schemas.of_message("C", kind, Names("pascal")) != first
