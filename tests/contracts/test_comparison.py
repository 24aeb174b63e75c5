"""A change that breaks somebody is found, with whom and why; a harmless one is not mentioned."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest

import rowbus
from rowbus import contracts
from rowbus.contracts import Action, Contract, Message, Party, Use
from rowbus.contracts.schemas import Schemas
from rowbus.messages.bodies.shape import OpenEnum
from rowbus.messages.conventions import Kind
from rowbus.messages.message_types import contract_of
from tests.contracts import shop
from tests.fixtures.command_line import CommandLine
from tests.fixtures.every import every

QUEUE = '"public"."Sales"'


def of(make: Any = rowbus.command, name: str = "Shop.X", /, parents: Any = (), **fields: Any) -> Any:  # noqa: ANN401 - a class
    """Return a class with these fields: types, or types and defaults."""
    options = {one: fields.pop(one) for one in ("omit_defaults", "forbid_unknown_fields") if one in fields}
    specs = [(one, *(given if isinstance(given, tuple) else (given,))) for one, given in fields.items()]
    return make(name, parents=parents)(msgspec.defstruct("X", specs, kw_only=True, **options))


def system(*uses: tuple[Action, Any] | Use, party: Party | None = None) -> Contract:
    """Return the contract of an endpoint that uses classes so; a use of its own says more."""
    schemas, found, messages = Schemas(), [], {}
    for use in uses:
        if isinstance(use, Use):
            found.append(use)
            continue
        action, kind = use
        serializer = rowbus.Json()
        said = contract_of(kind)
        payload = schemas.of_message(said.name, kind, serializer.names_of(kind))
        messages[said.name] = Message(said.name, said.kind, said.parents, payload)
        found.append(Use("Sales", action, said.name, is_subscribed=said.kind is Kind.EVENT))
    known = party or Party("Sales", QUEUE, "application/json")
    return Contract("", (known,), tuple(messages.values()), tuple(found), schemas.found)


def takes(**fields: object) -> Contract:
    return system((Action.HANDLE, of(**fields)))


def sends(**fields: object) -> Contract:
    return system((Action.SEND, of(**fields)))


def saga(name: str, found_by: str) -> Contract:
    taken = takes(order_id=str, number=str)
    return taken._replace(uses=(taken.uses[0]._replace(saga=name, found_by=found_by),))


class Two(IntEnum):
    A = 1
    B = 2


class Three(IntEnum):
    A = 1
    B = 2
    C = 3


class OpenTwo(OpenEnum):
    A = 1
    B = 2


class Bits(IntFlag):
    A = 1


class MoreBits(IntFlag):
    A = 1
    B = 2


class Words(Enum):
    A = "a"
    B = "b"


class FewerWords(Enum):
    A = "a"


class Line(msgspec.Struct):
    sku: str


class PricedLine(msgspec.Struct):
    sku: str
    price: Decimal


class NotedLine(msgspec.Struct):
    sku: str
    note: str = ""


class Node(msgspec.Struct):
    below: list[Node] = []


Short = Annotated[str, msgspec.Meta(max_length=5)]
Long = Annotated[str, msgspec.Meta(max_length=50)]
Few = Annotated[int, msgspec.Meta(ge=1, le=9)]
More = Annotated[int, msgspec.Meta(ge=0, le=99)]
Coded = Annotated[str, msgspec.Meta(pattern="^[A-Z]+$")]

EVENT, COMMAND, MESSAGE = rowbus.event, rowbus.command, rowbus.message
HANDLE, SEND, PUBLISH, REPLY = Action.HANDLE, Action.SEND, Action.PUBLISH, Action.REPLY
NEW = "new handlers refuse old messages: "
OLD = "old handlers refuse new messages: "
TIMEOUT = Use("Sales", HANDLE, "Shop.X", is_timeout=True)

BREAKS: list[tuple[Contract, Contract, str]] = [
    (takes(a=str), takes(a=str, b=int), f"{NEW}`b` is required, and not there"),
    (takes(a=(str, "")), takes(a=str), f"{NEW}`a` is required, and may be left out"),
    (takes(a=str), takes(b=str), f"{NEW}`b` is required, and not there"),
    (takes(a=str), takes(a=int), f"{NEW}`a` has to be integer, and is string"),
    (takes(a=float), takes(a=int), f"{NEW}`a` has to be integer, and is number"),
    (takes(a=str), takes(a=UUID), f"{NEW}`a` has to be string (uuid), and is any string"),
    (
        takes(a=datetime),
        takes(a=timedelta),
        f"{NEW}`a` has to be string (time-span), and is string (date-time)",
    ),
    (takes(a=str | None), takes(a=str), f"{NEW}`a` has to be string, and is null"),
    (takes(a=int | str), takes(a=int), f"{NEW}`a` has to be integer, and is string"),
    (takes(a=Three), takes(a=Two), f"{NEW}`a` may be 3, which is not read"),
    (takes(a=int), takes(a=Two), f"{NEW}`a` has to be one of 1, 2, and may be another"),
    (takes(a=Words), takes(a=FewerWords), f'{NEW}`a` may be "b", which is not read'),
    (takes(a=Literal["x", "y"]), takes(a=Literal["x"]), f'{NEW}`a` may be "y", which is not read'),
    (takes(a=Long), takes(a=Short), f"{NEW}`a` has to keep maxLength 5, and has 50"),
    (takes(a=int), takes(a=Few), f"{NEW}`a` has to keep minimum 1, and has none"),
    (takes(a=str), takes(a=Coded), f"{NEW}`a` has to keep pattern ^[A-Z]+$, and has none"),
    (takes(a=bytes), takes(a=str), f"{NEW}`a` has to keep contentEncoding None, and has base64"),
    (takes(a=list[Line]), takes(a=list[PricedLine]), f"{NEW}`a[].price` is required, and not there"),
    (takes(a=tuple[int, int]), takes(a=tuple[int, int, int]), f"{NEW}`a` has to keep minItems 3, and has 2"),
    (takes(a=dict[str, str]), takes(a=dict[str, int]), f"{NEW}`a[…]` has to be integer, and is string"),
    (takes(a=str, b=str), takes(a=str, forbid_unknown_fields=True), f"{NEW}`b` is not known"),
    (sends(a=str, b=int), sends(a=str), f"{OLD}`b` is required, and not there"),
    (sends(a=Two), sends(a=Three), f"{OLD}`a` may be 3, which is not read"),
    (sends(a=str), sends(a=(str | None, None)), f"{OLD}`a` has to be string, and is null"),
    (sends(a=int), sends(a=(int, 0), omit_defaults=True), f"{OLD}`a` is required, and may be left out"),
    (takes(a=str), system(), "Sales no longer handles it: what is sent to it comes to nobody"),
    (
        takes(a=str),
        system((HANDLE, of(COMMAND, "Shop.Y", a=str))),
        "Sales no longer handles it (it is called Shop.Y now?)",
    ),
    (system(TIMEOUT), system(), "Sales no longer handles it: timeouts that wait come to nobody"),
    (system((PUBLISH, of(EVENT, a=str))), system(), "is no longer published: subscribers wait for it"),
    (system((REPLY, of(MESSAGE, a=str))), system(), "is no longer replied by Sales: who asked wait for it"),
    (
        system((PUBLISH, of(EVENT, a=str))),
        system((SEND, of(COMMAND, a=str))),
        "is a command now, and was an event",
    ),
    (
        system((PUBLISH, of(EVENT, parents=("Shop.I",), a=str))),
        system((PUBLISH, of(EVENT, a=str))),
        "is no Shop.I any more: their subscribers do not get it",
    ),
    (
        saga("Shop.P", "order_id"),
        saga("Shop.P", "number"),
        "finds Shop.P by number now: those that go on are",
    ),
    (saga("Shop.P", "order_id"), saga("Shop.Q", "order_id"), "goes to Shop.Q now: Shop.P goes on without it"),
    (
        system(),
        system(party=Party("Sales", '"shop"."Sales"', "application/json")),
        f'receives from "shop"."Sales" now: old senders send to {QUEUE}',
    ),
    (
        system(),
        system(party=Party("Sales", QUEUE, "text/xml")),
        "writes text/xml now, and application/json is what was read",
    ),
]

HARMLESS: list[tuple[Contract, Contract]] = [
    (takes(a=str), takes(a=str)),
    (takes(a=str), takes(a=str, b=(int, 0))),
    (takes(a=str, b=int), takes(a=str)),
    (takes(a=str), takes(a=(str, "x"))),
    (takes(a=int), takes(a=float)),
    (takes(a=int), takes(a=Decimal)),
    (takes(a=Decimal), takes(a=float)),
    (takes(a=UUID), takes(a=str)),
    (takes(a=datetime), takes(a=str)),
    (takes(a=str), takes(a=str | None)),
    (takes(a=int), takes(a=int | str)),
    (takes(a=Two), takes(a=Three)),
    (takes(a=Two), takes(a=int)),
    (takes(a=Three), takes(a=OpenTwo)),
    (takes(a=MoreBits), takes(a=Bits)),
    (takes(a=FewerWords), takes(a=Words)),
    (takes(a=Literal["x"]), takes(a=Literal["x", "y"])),
    (takes(a=Literal["x"]), takes(a=str)),
    (takes(a=Short), takes(a=Long)),
    (takes(a=Few), takes(a=More)),
    (takes(a=Few), takes(a=int)),
    (takes(a=Coded), takes(a=str)),
    (takes(a=list[Line]), takes(a=list[NotedLine])),
    (takes(a=list[int]), takes(a=set[int])),
    (takes(a=dict[str, int]), takes(a=dict[str, float])),
    (takes(a=list[Node]), takes(a=list[Node])),
    (takes(a=str, forbid_unknown_fields=True), takes(a=str)),
    (takes(a=str, b=int), takes(b=int, a=str)),
    (takes(a=str), takes(a=Any)),
    (sends(a=str), sends(a=str, b=int)),
    (sends(a=str), sends(a=(str, "x"))),
    (sends(a=str, b=(int, 0)), sends(a=str)),
    (sends(a=Three), sends(a=Two)),
    (sends(a=str), sends(a=UUID)),
    (sends(a=str | None), sends(a=str)),
    (sends(a=str), system()),
    (system((HANDLE, of(EVENT, a=str))), system()),
    (system(), takes(a=str)),
    (system(), system((PUBLISH, of(EVENT, a=str)))),
    (
        system((PUBLISH, of(EVENT, a=str))),
        system((PUBLISH, of(EVENT, "Shop.X2", parents=("Shop.X",), a=str, b=int))),
    ),
    (
        system((PUBLISH, of(EVENT, a=str))),
        system((PUBLISH, of(EVENT, parents=("Shop.I",), a=str))),
    ),
    (saga("Shop.P", "order_id"), saga("Shop.P", "order_id")),
]


@every("old, new, told", BREAKS)
def test_a_change_that_breaks_somebody_is_found(old: Contract, new: Contract, told: str) -> None:
    found = [str(one) for one in contracts.compare(old, new)]

    assert len(found) == 1, found
    assert told in found[0]


@every("old, new", HARMLESS)
def test_a_harmless_change_is_not_mentioned(old: Contract, new: Contract) -> None:
    assert contracts.compare(old, new) == []


def test_there_are_thirty_of_each() -> None:
    assert min(len(BREAKS), len(HARMLESS)) >= 30


@every("old, new, told", BREAKS)
def test_what_is_found_of_contracts_is_found_of_their_documents(
    old: Contract, new: Contract, told: str
) -> None:
    def again(contract: Contract) -> Contract:
        return contracts.from_asyncapi(json.loads(json.dumps(contracts.to_asyncapi(contract))))

    assert contracts.compare(again(old), again(new)) == contracts.compare(old, new)


def test_who_takes_and_sends_a_message_hears_of_both_directions() -> None:
    def both(**fields: object) -> Contract:
        return system((HANDLE, of(**fields)), Use("Web", SEND, "Shop.X"))

    found = [one.text for one in contracts.compare(both(a=Two), both(a=Three, b=int))]
    assert found == [
        f"{NEW}`b` is required, and not there",
        f"{OLD}`a` may be 3, which is not read",
    ]


def test_a_contract_breaks_nothing_of_itself() -> None:
    found = contracts.describe(shop.sales, shop.billing)

    assert contracts.compare(found, found) == []


@pytest.mark.one_version
def test_the_command_says_each_break_in_a_line_and_fails(rowbus: CommandLine) -> None:
    def write(name: str, contract: Contract) -> None:
        (rowbus.folder / name).write_text(json.dumps(contracts.to_asyncapi(contract)))

    write("old.json", takes(a=str))
    write("new.json", takes(a=int, b=int))
    broken = rowbus("contracts", "check", "old.json", "new.json")
    listed = rowbus("contracts", "check", "old.json", "new.json", "--json")
    same = rowbus("contracts", "check", "old.json", "old.json")
    missing = rowbus("contracts", "check", "older.json", "new.json")

    assert (broken.returncode, broken.stdout.splitlines()) == (
        1,
        [
            f"Shop.X: {NEW}`b` is required, and not there",
            f"Shop.X: {NEW}`a` has to be integer, and is string",
        ],
    )
    assert [one["subject"] for one in json.loads(listed.stdout)] == ["Shop.X", "Shop.X"]
    assert (same.returncode, same.stdout) == (0, "Nothing breaks.\n")
    assert (missing.returncode, missing.stderr) == (2, "rowbus: There is no file older.json.\n")
