"""`rowbus contracts export` prints the contract of a module, and says when a document is out of date."""

from __future__ import annotations

import json

import pytest

from rowbus import contracts
from tests.contracts import shop
from tests.fixtures import places
from tests.fixtures.command_line import CommandLine
from tests.fixtures.every import every

pytestmark = pytest.mark.one_version


@pytest.fixture
def program(rowbus: CommandLine) -> CommandLine:
    """Give a command line in a folder with the shop."""
    (rowbus.folder / "shop.py").write_text((places.TESTS / "contracts" / "shop.py").read_text())
    return rowbus


def test_the_contract_of_a_module_is_printed_without_a_database(program: CommandLine) -> None:
    printed = program("contracts", "export", "shop", "--title", "Shop", ROWBUS_DATABASE="no such thing")

    assert printed.returncode == 0, printed.stderr
    expected = contracts.describe(shop.sales, shop.billing, title="Shop")
    assert contracts.from_asyncapi(json.loads(printed.stdout)) == expected


def test_a_document_that_is_out_of_date_is_told(program: CommandLine) -> None:
    kept = program.folder / "asyncapi.json"
    command = ("contracts", "export", "shop:sales", "shop:billing", "--check", "asyncapi.json")
    missing = program(*command)
    kept.write_text(program(*command[:4]).stdout)
    same = program(*command)
    kept.write_text(kept.read_text().replace('"OrderId"', '"Id"'))
    changed = program(*command)

    assert (same.returncode, same.stdout) == (0, "asyncapi.json is up to date.\n")
    for told in (missing, changed):
        assert told.returncode == 1
        assert told.stderr == (
            "rowbus: asyncapi.json is out of date: write it with `rowbus contracts export shop:sales shop:billing`.\n"
        )


@every(
    "name, content, told",
    [
        ("asyncapi.txt", "asyncapi: 3.0.0", "rowbus: asyncapi.txt is no JSON document.\n"),
        ("asyncapi.yaml", "{", "rowbus: asyncapi.yaml is no YAML document.\n"),
        ("asyncapi.yml", "!!python/name:os.system x", "rowbus: asyncapi.yml is no YAML document.\n"),
    ],
)
def test_what_a_file_holds_that_is_no_document_is_told(
    program: CommandLine, name: str, content: str, told: str
) -> None:
    (program.folder / name).write_text(content)

    found = program("contracts", "export", "shop", "--check", name)
    assert (found.returncode, found.stderr) == (2, told)


def test_a_document_in_yaml_is_the_same_as_in_json(program: CommandLine) -> None:
    printed = program("contracts", "export", "shop", "--yaml")
    (program.folder / "shop.yaml").write_text(printed.stdout)
    kept = program("contracts", "export", "shop", "--check", "shop.yaml")
    compared = program("contracts", "check", "shop.yaml", "shop")

    assert printed.stdout.startswith("asyncapi: 3.0.0\n"), printed.stderr
    assert (kept.returncode, kept.stdout) == (0, "shop.yaml is up to date.\n")
    assert (compared.returncode, compared.stdout) == (0, "Nothing breaks.\n")


def test_what_looks_like_a_time_in_yaml_is_text(program: CommandLine) -> None:
    (program.folder / "schema.yaml").write_text(
        "title: Shop.Thing\nproperties: {day: {type: string, default: 2026-01-02}}\n"
    )

    assert (
        "day: str = msgspec.field(default='2026-01-02')"
        in program("contracts", "python", "schema.yaml").stdout
    )


def test_classes_are_printed_of_documents_and_of_schemas(program: CommandLine) -> None:
    (program.folder / "shop.json").write_text(program("contracts", "export", "shop").stdout)
    (program.folder / "schema.json").write_text(
        '{"properties": {"id": {"type": "string"}}, "required": ["id"]}'
    )
    python = program("contracts", "python", "shop.json")
    csharp = program("contracts", "csharp", "shop")
    schema = program("contracts", "python", "schema.json", "--name", "Shop.Thing")
    nameless = program("contracts", "csharp", "schema.json")

    found = contracts.describe(shop.sales, shop.billing)
    assert python.stdout == contracts.to_python(found)
    assert csharp.stdout == contracts.to_csharp(found)
    assert (
        "@rowbus.message('Shop.Thing')\nclass Thing(msgspec.Struct, kw_only=True):\n    id: str\n"
        in schema.stdout
    )
    assert (nameless.returncode, nameless.stderr) == (
        2,
        "rowbus: The JSON Schema has no title: say what the message is called.\n",
    )
