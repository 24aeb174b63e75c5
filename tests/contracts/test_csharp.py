"""A contract in C#: records that NServiceBus takes, whose JSON has the contract's names, types and nulls.

The text is compared, tree-sitter parses it by the grammar of C#, and where a .NET SDK is installed it is compiled.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntFlag
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest
import tree_sitter_c_sharp
from hypothesis import Phase, given, settings
from tree_sitter import Language, Node, Parser

import rowbus
from rowbus import contracts
from rowbus.contracts import Contract, Message
from rowbus.errors import ConfigurationError
from rowbus.messages.conventions import Kind
from tests.contracts import shop
from tests.contracts.test_python_classes import CHECKS, described
from tests.fixtures.every import every
from tests.fixtures.message_classes import messages
from tests.fixtures.pairs import effort


class Days(IntFlag):
    MONDAY = 1
    SUNDAY = 64


class Word(Enum):
    RED = "red"


class Line(msgspec.Struct):
    sku: str


def text_of(endpoint: rowbus.Endpoint) -> str:
    return contracts.to_csharp(contracts.describe(endpoint))


def record(**fields: Any) -> list[str]:  # noqa: ANN401 - types, or types and defaults
    """Return the lines of a record with these fields, without the head and the braces."""
    specs = [(name, *(given if isinstance(given, tuple) else (given,))) for name, given in fields.items()]
    kind = rowbus.command("Shop.Order", rename="pascal")(msgspec.defstruct("Order", specs))
    endpoint = rowbus.Endpoint("Sales", database="postgresql://nowhere/shop")
    endpoint.route(kind, to="Sales")
    lines = text_of(endpoint).split("public record Order : ICommand\n    {\n")[1].split("    }\n")[0]
    return [line.strip() for line in lines.splitlines()]


@every(
    "kind, told",
    [
        (str, "public required string Item { get; init; }"),
        (int, "public required long Item { get; init; }"),
        (float, "public required double Item { get; init; }"),
        (Decimal, "public required decimal Item { get; init; }"),
        (bool, "public required bool Item { get; init; }"),
        (UUID, "public required Guid Item { get; init; }"),
        (datetime, "public required DateTimeOffset Item { get; init; }"),
        (date, "public required DateOnly Item { get; init; }"),
        (time, "public required TimeOnly Item { get; init; }"),
        (timedelta, "public required TimeSpan Item { get; init; }"),
        (bytes, "public required byte[] Item { get; init; }"),
        (Line, "public required Line Item { get; init; }"),
        (list[Line], "public required List<Line> Item { get; init; }"),
        (set[int], "public required HashSet<long> Item { get; init; }"),
        (dict[str, Decimal], "public required Dictionary<string, decimal> Item { get; init; }"),
        (dict[UUID, int], "public required Dictionary<Guid, long> Item { get; init; }"),
        (tuple[int, str], "public required List<object?> Item { get; init; }"),
        (Days, "public required Days Item { get; init; }"),
        (Word, "public required string Item { get; init; }"),
        (Literal["a", "b"], "public required string Item { get; init; }"),
        (int | None, "public required long? Item { get; init; }"),
        (Line | None, "public required Line? Item { get; init; }"),
        (int | str, "public required object? Item { get; init; }"),
        (Any, "public required object? Item { get; init; }"),
        ((str, "x"), 'public string Item { get; init; } = "x";'),
        ((Decimal, Decimal("1.5")), "public decimal Item { get; init; } = 1.5m;"),
        ((Days, Days.SUNDAY), "public Days Item { get; init; } = Days.SUNDAY;"),
        ((timedelta, timedelta(1)), 'public TimeSpan Item { get; init; } = TimeSpan.Parse("1.00:00:00");'),
        ((list[int], []), "public List<long> Item { get; init; } = new();"),
        ((str | None, None), "public string? Item { get; init; }"),
    ],
)
def test_a_field_has_the_type_of_dotnet(kind: Any, told: str) -> None:  # noqa: ANN401 - as above
    assert record(item=kind) == [told]


def test_what_may_be_left_out_and_not_be_null_is_left_out_where_it_is_null() -> None:
    assert record(item=(UUID, UUID(int=1))) == [
        "[JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)]",
        "public Guid? Item { get; init; }",
    ]


def test_a_property_has_the_name_that_it_has_in_bodies() -> None:
    lines = text_of(shop.billing).splitlines()

    at = lines.index("    public record ChargeCard : ICommand")
    assert lines[at + 2].strip() == '[JsonPropertyName("order_id")]'
    assert lines[at + 3].strip() == "public required Guid OrderId { get; init; }"


def test_a_parent_is_a_base_with_its_fields_or_an_interface() -> None:
    whole = contracts.to_csharp(contracts.describe(shop.sales, shop.billing))
    alone = text_of(shop.sales)

    assert "public record OrderPlaced : global::Shop.IOrderEvent\n    {\n    }" in whole
    assert "public record IOrderEvent : IEvent" in whole
    assert "public record OrderPlaced : global::Shop.IOrderEvent\n    {\n        [JsonPropertyName" in alone
    assert "public interface IOrderEvent : IEvent { }" in alone


def test_an_inner_class_stands_in_its_outer_one() -> None:
    kind = rowbus.message("Acme.Messages.Outer+Inner")(msgspec.defstruct("Inner", [("a", str)]))
    endpoint = rowbus.Endpoint("Sales", database="postgresql://nowhere/shop")
    endpoint.route(kind, to="Sales")

    told = text_of(endpoint)
    assert "namespace Acme.Messages\n{\n    public static partial class Outer\n" in told
    assert "        public record Inner : IMessage\n" in told


def test_messages_that_another_document_holds_in_itself_are_records() -> None:
    payload = {"type": "object", "properties": {"Size": {"type": "integer"}}, "required": ["Size"]}
    told = contracts.to_csharp(
        Contract("", messages=(Message("Acme.Order", Kind.EVENT, (), payload),)),
    )

    assert "namespace Acme\n{\n    public record Order : IEvent\n" in told
    assert "public required long Size { get; init; }" in told


def test_what_a_document_says_becomes_no_code() -> None:
    enum = {"type": "integer", "x-enum-varnames": ["A"], "x-enum-values": ["1 } class B {"]}
    order = Message("Shop.Order", Kind.EVENT, (), {"properties": {}}, "An\norder & more")
    told = contracts.to_csharp(Contract("", messages=(order,), schemas={"E": enum}))

    assert "    /// <summary>An order &amp; more</summary>\n" in told
    assert "class B" not in told


def mistakes(text: str) -> list[str]:
    """Return the parts of a text that are no C#, and what is missing in it."""
    parsed = Parser(Language(tree_sitter_c_sharp.language())).parse(text.encode())

    def each(node: Node) -> Iterator[str]:
        if node.is_error or node.is_missing:
            yield f"{node.type} in line {node.start_point.row + 1}: {text.splitlines()[node.start_point.row]}"
        for child in node.children:
            yield from each(child)

    return list(each(parsed.root_node))


def test_the_text_is_csharp() -> None:
    odd = {"title": "Shop.class", "properties": {"event": {"type": "string"}, "class": {"type": "string"}}}
    several: list[Contract] = [contracts.describe(shop.sales, shop.billing), contracts.from_json_schema(odd)]

    assert [mistakes(contracts.to_csharp(one)) for one in several] == [[], []]


PROJECT = """<Project Sdk="Microsoft.NET.Sdk"><PropertyGroup>
<TargetFramework>net$(BundledNETCoreAppTargetFrameworkVersion)</TargetFramework><Nullable>enable</Nullable>
</PropertyGroup></Project>"""
INTERFACES = """namespace NServiceBus;
public interface IMessage { } public interface ICommand : IMessage { } public interface IEvent : IMessage { }"""


def test_a_project_of_dotnet_compiles_it(tmp_path: Path) -> None:
    dotnet = shutil.which("dotnet")
    if dotnet is None:
        pytest.skip("no .NET SDK is installed to compile with")
    text = contracts.to_csharp(contracts.describe(shop.sales, shop.billing))
    for name, content in (
        ("Shop.csproj", PROJECT),
        ("NServiceBus.cs", INTERFACES),
        ("Messages.cs", text),
    ):
        (tmp_path / name).write_text(content)
    build = [dotnet, "build", "-warnaserror"]
    told = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert told.returncode == 0, told.stdout


def check(message: object) -> None:
    kind, serializer = type(message), rowbus.Json(rename="pascal")
    try:
        serializer.reader(kind)
    except ConfigurationError:
        return
    text = contracts.to_csharp(described(kind, serializer.names_of(kind)))
    assert mistakes(text) == [], text


@given(messages())
@settings(
    max_examples=50, deadline=None, suppress_health_check=CHECKS, phases=[Phase.explicit, Phase.generate]
)
def test_each_shape_of_message_is_csharp(message: object) -> None:
    check(message)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@given(messages())
@settings(max_examples=effort(100, 20_000), deadline=None, suppress_health_check=CHECKS)
def test_many_shapes_of_messages_are_csharp(message: object) -> None:
    check(message)
