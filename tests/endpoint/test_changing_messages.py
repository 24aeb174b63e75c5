"""docs/how-to/version-messages.md: changes of messages in their order of deploys, with both sides under traffic.

A deploy starts a new version beside the old one, and then ends that one: messages leave before, between and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import pytest

import rowbus
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints
from tests.conformance.transport import eventually
from tests.fixtures.places import ROOT

pytestmark = pytest.mark.one_version

PAGE = ROOT / "docs" / "how-to" / "version-messages.md"
PLACE, OLD, NEW = "Shop.PlaceOrder", "Shop.OrderPlaced", "Shop.OrderAccepted"
Make = Callable[[int], list[Any]]
Read = Callable[[Any], int]


def of(name: str = PLACE, make: Any = rowbus.command, parents: tuple[str, ...] = (), **fields: Any) -> Any:  # noqa: ANN401 - a class
    """Return a version of a class: types by the names of fields, or types with defaults."""
    body = {one: given[1] for one, given in fields.items() if isinstance(given, tuple)}
    hints = {one: given[0] if isinstance(given, tuple) else given for one, given in fields.items()}
    kind = type("Version", (), {"__annotations__": hints, **body})
    return make(name, parents=parents)(dataclass(kw_only=True)(kind))


class Colour(Enum):
    RED = "red"


class MoreColours(Enum):
    RED = "red"
    GREEN = "green"


Receiver = tuple[tuple[Any, Read], ...]
"""Classes that a version of receivers handles, and what of their messages tells the order."""


class Change(NamedTuple):
    """The versions of both sides, the first of which are the old ones."""

    senders: tuple[Make, ...]
    receivers: tuple[Receiver, ...]
    is_loud: bool = True  # whether mixed up sides show in the error queue


ID = of(id=int)
NOTED = of(id=int, note=(str, ""))
NUMBER, EITHER = of(number=int), of(id=(int | None, None), number=(int | None, None))
OLD_EVENT, NEW_EVENT = of(OLD, rowbus.event, id=int), of(NEW, rowbus.event, id=int)
BOTH_EVENTS = of(NEW, rowbus.event, (OLD,), id=int)
EVENTS = (OLD_EVENT, NEW_EVENT, BOTH_EVENTS)
WHOLE, PART, OTHER = of(id=int), of("Shop.ReserveGoods", id=int), of("Shop.ChargeCard", id=int)
RED, GREEN = of(id=int, colour=Colour), of(id=int, colour=MoreColours)


def one(kind: Any, **others: Any) -> Make:  # noqa: ANN401 - a class
    return lambda number: [kind(id=number, **others)]


def by_id(*kinds: Any) -> Receiver:  # noqa: ANN401 - classes
    return tuple((kind, lambda message: int(message.id)) for kind in kinds)


def renamed(message: Any) -> int:  # noqa: ANN401 - of either version
    return int(message.number or message.id)


CHANGES: dict[str, Change] = {
    "add an optional field": Change(
        (one(ID), one(NOTED, note="x")), (by_id(ID), by_id(NOTED)), is_loud=False
    ),
    "add a required field": Change(
        (one(ID), one(NOTED, note="x")), (by_id(ID), by_id(NOTED), by_id(of(id=int, note=str)))
    ),
    "remove a field": Change(
        (one(of(id=int, note=str), note="x"), one(ID)), (by_id(of(id=int, note=str)), by_id(NOTED), by_id(ID))
    ),
    "rename a field": Change(
        (one(ID), lambda number: [NUMBER(number=number)]),
        (by_id(ID), ((EITHER, renamed),), ((NUMBER, lambda message: int(message.number)),)),
    ),
    "rename a command": Change(
        (one(ID), one(of(NEW, id=int))), (by_id(ID), by_id(ID, of(NEW, id=int)), by_id(of(NEW, id=int)))
    ),
    "rename an event": Change(
        (one(OLD_EVENT), one(BOTH_EVENTS), one(NEW_EVENT)),
        (by_id(OLD_EVENT), by_id(NEW_EVENT)),
        is_loud=False,  # an event to which nobody has subscribed goes to nobody
    ),
    "widen a type": Change(
        (one(of(id=int, amount=int), amount=1), one(of(id=int, amount=Decimal), amount=Decimal("1.5"))),
        (by_id(of(id=int, amount=int)), by_id(of(id=int, amount=Decimal))),
    ),
    "narrow a type": Change(
        (one(of(id=int, amount=Decimal), amount=Decimal("1.5")), one(of(id=int, amount=int), amount=1)),
        (by_id(of(id=int, amount=Decimal)), by_id(of(id=int, amount=int))),
    ),
    "add a member to an enum": Change(
        (one(RED, colour=Colour.RED), one(GREEN, colour=MoreColours.GREEN)), (by_id(RED), by_id(GREEN))
    ),
    "remove a member from an enum": Change(
        (one(GREEN, colour=MoreColours.GREEN), one(RED, colour=Colour.RED)), (by_id(GREEN), by_id(RED))
    ),
    "split a message": Change(
        (one(WHOLE), lambda number: [PART(id=number), OTHER(id=number)]),
        (by_id(WHOLE), by_id(WHOLE, PART, OTHER), by_id(PART, OTHER)),
    ),
}


def orders() -> dict[str, list[str]]:
    """Return the changes that the page tells, with the sides that it has deployed one after the other."""
    table = PAGE.read_text(encoding="utf-8").partition("| change | deploy |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    return {change.strip(): [step.split()[0] for step in told.split(";")] for change, told in rows}


class Traffic:
    """The versions of both sides that run, and what was sent and read so far."""

    def __init__(self, endpoints: Endpoints, backend: Backend, change: Change) -> None:
        self._endpoints, self._backend, self._change = endpoints, backend, change
        self._read: list[int] = []
        self._sent: list[int] = []
        self._receivers: list[rowbus.Endpoint] = []
        self._senders: list[tuple[rowbus.Endpoint, Make]] = []

    async def deploy(self, side: str, version: int) -> None:
        """Start a version of a side beside the one that runs, and end that one; send before, between and after."""
        await self.send()
        if side == "receivers":
            before, self._receivers = self._receivers, [*self._receivers, await self._receiver(version)]
            await self.send()
            self._receivers = self._receivers[len(before) :]
            for one_ in before:
                await one_.stop(5)
        else:
            sender = self._endpoints.make("Web")
            await sender.start()
            self._senders.append((sender, self._change.senders[version]))
            await self.send()
            del self._senders[:-1]
        await self.send()

    async def _receiver(self, version: int) -> rowbus.Endpoint:
        made = self._endpoints.make("Sales")
        for kind, read in self._change.receivers[version]:
            made.handler(self._handler(kind, read))
        await made.start()
        return made

    def _handler(self, kind: Any, read: Read) -> Callable[[Any], Any]:  # noqa: ANN401 - a class
        async def handle(message: Any) -> None:  # noqa: ANN401 - as above
            self._read.append(read(message))

        handle.__annotations__["message"] = kind
        return handle

    async def send(self) -> None:
        """Have each sender that runs send three times."""
        for sender, make in self._senders * 3:
            number = len(self._sent) + 1
            for message in make(number):
                self._sent.append(number)
                is_event = type(message) in EVENTS
                await (sender.publish(message) if is_event else sender.send("Sales", message))

    async def settled(self) -> tuple[int, bool]:
        """Wait until all is read or failed; return how many failed, and whether each other was read once."""
        await eventually(self._is_settled)
        failed = await self._backend.count("error")
        return failed, sorted(self._read) == self._sent

    async def _is_settled(self) -> bool:
        return len(self._read) + await self._backend.count("error") == len(self._sent)


async def begun(endpoints: Endpoints, backend: Backend, change: Change, versions: tuple[int, int]) -> Traffic:
    """Have one version of the senders, and one of the receivers, run."""
    traffic = Traffic(endpoints, backend, change)
    await traffic.deploy("receivers", versions[1])
    await traffic.deploy("senders", versions[0])
    return traffic


def paths(name: str) -> Iterator[list[str]]:
    """Give the orders of deploys of a change; the page says `either` of one in which none is."""
    order = orders()[name]
    yield from [["receivers", "senders"], ["senders", "receivers"]] if order == ["either"] else [order]


def test_the_page_has_an_order_for_each_change() -> None:
    assert orders().keys() == CHANGES.keys()


@pytest.mark.parametrize("name", CHANGES)
async def test_deploys_in_the_order_of_the_page_lose_nothing(
    endpoints: Endpoints, backend: Backend, name: str
) -> None:
    for path in paths(name):
        traffic = await begun(endpoints, backend, CHANGES[name], (0, 0))
        done = {"senders": 0, "receivers": 0}
        for side in path:
            assert await traffic.settled() == (0, True)  # what the old ones sent is gone
            done[side] += 1
            await traffic.deploy(side, done[side])
        assert await traffic.settled() == (0, True)
        assert [done["senders"] + 1, done["receivers"] + 1] == [
            len(CHANGES[name].senders),
            len(CHANGES[name].receivers),
        ]
        await endpoints.stop_all()


@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.is_loud])
async def test_the_last_version_of_one_side_and_the_first_of_the_other_fail(
    endpoints: Endpoints, backend: Backend, name: str
) -> None:
    async def fail(versions: tuple[int, int]) -> bool:
        traffic = await begun(endpoints, backend, CHANGES[name], versions)
        failed, _ = await traffic.settled()
        await endpoints.stop_all()
        return failed > 0

    assert await fail((0, -1)) or await fail((-1, 0))
