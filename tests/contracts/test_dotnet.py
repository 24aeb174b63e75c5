"""A .NET assembly is a contract: its messages with their kinds, parents, names and types, read from metadata alone.

The assemblies in `dotnet/` were compiled by Mono from the sources beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowbus import contracts
from rowbus.errors import ConfigurationError
from rowbus.messages.conventions import Kind
from tests.fixtures.command_line import CommandLine
from tests.fixtures.every import every

FOLDER = Path(__file__).parent / "dotnet"
SHOP = FOLDER / "Shop.Messages.dll"
NULL = {"type": "null"}
TEXT = {"type": "string"}
ID = {"type": "string", "format": "uuid"}
MOMENT = {"type": "string", "format": "date-time"}
DECIMAL = {"type": "number", "format": "decimal"}


def listed(items: object) -> dict[str, Any]:
    return {"type": "array", "items": items}


def maybe(schema: object) -> dict[str, Any]:
    return {"anyOf": [schema, NULL]}


def named(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.fixture(scope="module")
def shop() -> contracts.Contract:
    return contracts.from_assembly(SHOP)


@every(
    "name, kind, parents",
    [
        ("Shop.PlaceOrder", Kind.COMMAND, ()),
        ("Shop.Cancel", Kind.COMMAND, ()),
        ("Shop.IOrderEvent", Kind.EVENT, ()),
        ("Shop.OrderEvent", Kind.EVENT, ("Shop.IOrderEvent",)),
        ("Shop.OrderPlaced", Kind.EVENT, ("Shop.OrderEvent", "Shop.IOrderEvent")),
        ("Shop.Outer+Asked", Kind.MESSAGE, ()),
    ],
)
def test_a_type_is_what_its_interfaces_say_also_those_of_its_base(
    shop: contracts.Contract, name: str, kind: Kind, parents: tuple[str, ...]
) -> None:
    found = shop.message(name)

    assert found is not None
    assert (found.kind, found.parents) == (kind, parents)
    assert len(shop.messages) == 6  # and no other type is one: neither enums, parts nor generic types


@every(
    "name, schema, needed",
    [
        ("OrderId", ID, True),
        ("Customer", TEXT, True),
        ("Note", maybe(TEXT), False),
        ("how_many", {"type": "integer"}, True),
        ("Points", maybe({"type": "integer"}), False),
        ("Gift", {"type": "boolean"}, True),
        ("Weight", {"type": "number", "format": "double"}, True),
        ("Ordered", MOMENT, True),
        ("Wanted", maybe(MOMENT), False),
        ("Patience", {"type": "string", "format": "time-span"}, True),
        ("Paper", maybe(named("Shop.Colour")), False),
        ("On", named("Shop.Days"), True),
        ("Seal", {"type": "string", "contentEncoding": "base64"}, True),
        ("Seals", listed({"type": "string", "contentEncoding": "base64"}), True),
        ("Pairs", {"type": "object", "additionalProperties": maybe(TEXT)}, True),
        ("Lines", listed(named("Shop.Line")), True),
        ("Tags", listed(TEXT), True),
        ("Coupons", {**listed(ID), "uniqueItems": True}, True),
        ("Prices", {"type": "object", "additionalProperties": DECIMAL}, True),
        ("Notes", listed(maybe(TEXT)), True),
        ("Other", {}, False),
        ("Letter", TEXT, True),
    ],
)
def test_a_property_has_the_type_and_the_name_that_dotnet_writes(
    shop: contracts.Contract, name: str, schema: dict[str, Any], needed: object
) -> None:
    found = shop.schemas["Shop.PlaceOrder"]

    assert found["properties"][name] == (schema if needed else {**schema, "default": None})
    assert (name in found["required"]) is needed


def test_what_is_ignored_static_computed_hidden_or_an_indexer_is_not_in_a_body(
    shop: contracts.Contract,
) -> None:
    found = shop.schemas["Shop.PlaceOrder"]["properties"]

    assert not found.keys() & {"Secret", "Version", "Shout", "Hidden", "Item", "Count"}


def test_a_class_has_the_properties_of_its_base_and_those_that_a_constructor_sets(
    shop: contracts.Contract,
) -> None:
    assert list(shop.schemas["Shop.OrderPlaced"]["properties"]) == ["OrderId", "Channel"]
    assert shop.schemas["Shop.Cancel"]["properties"] == {
        "Reason": {**maybe(TEXT), "default": None},  # nothing says that it is not null
        "Many": {"default": None},
        "Table": {"default": None},
    }


def test_enums_have_the_numbers_and_the_names_of_their_members(shop: contracts.Contract) -> None:
    assert shop.schemas["Shop.Colour"] == {"enum": [0, 5], "x-enum-varnames": ["Red", "Green"]}
    assert shop.schemas["Shop.Days"] == {
        "type": "integer",
        "format": "flags",
        "x-enum-values": [1, 64],
        "x-enum-varnames": ["Monday", "Sunday"],
    }


def test_without_interfaces_namespaces_tell_what_a_type_is() -> None:
    found = contracts.from_assembly(FOLDER / "Plain.dll")

    assert [(one.name, one.kind) for one in found.messages] == [
        ("Shop.Commands.ShipOrder", Kind.COMMAND),
        ("Shop.Events.OrderShipped", Kind.EVENT),
        ("Shop.Messages.Shipped", Kind.MESSAGE),
    ]


def test_an_assembly_is_compared_with_another_and_becomes_classes(rowbus: CommandLine) -> None:
    classes = rowbus("contracts", "python", str(SHOP))
    same = rowbus("contracts", "check", str(SHOP), str(SHOP))

    assert (
        "@rowbus.event('Shop.OrderPlaced', parents=('Shop.OrderEvent', 'Shop.IOrderEvent'))" in classes.stdout
    )
    assert "    how_many: int\n" in classes.stdout
    assert (same.returncode, same.stdout) == (0, "Nothing breaks.\n")


@every(
    "content", [b"", b"MZ", b"no assembly", SHOP.read_bytes()[:5000], SHOP.read_bytes().replace(b"#~", b"#x")]
)
def test_what_is_no_assembly_is_told(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "no.dll"
    file.write_bytes(content)

    with pytest.raises(ConfigurationError, match=r"no\.dll is no \.NET assembly that can be read"):
        contracts.from_assembly(file)


def test_an_assembly_without_messages_is_told(tmp_path: Path) -> None:
    file = tmp_path / "no.dll"
    file.write_bytes(
        (FOLDER / "Plain.dll")
        .read_bytes()
        .replace(b"Shop.Commands", b"Shop.Xommands")
        .replace(b"Shop.Events", b"Shop.Xvents")
        .replace(b"Shop.Messages", b"Shop.Xessages")
    )

    with pytest.raises(ConfigurationError, match=r"has no messages: no type with NServiceBus's ICommand"):
        contracts.from_assembly(file)
