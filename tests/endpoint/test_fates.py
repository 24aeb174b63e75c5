"""The fates of messages: whatever attempts do, in every mode, policy and batch, they end as the model says.

Hypothesis makes up scenarios (`tests/endpoint/fates.py`), an endpoint on a real server goes through each, and what it
left is compared with the model, message by message. `make test` tries a few, `make test-slow` many. A scenario that
fails is printed as what can be pasted into an `@example`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings

import rowbus
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.on_postgresql import FAIL_AT_COMMIT, WRITE_BUSINESS
from tests.conformance.transport import eventually, headers_text
from tests.endpoint.fates import CASES, RAISES, Deed, Fate, Message, Scenario, fates, scenarios
from tests.fixtures.pairs import effort

if TYPE_CHECKING:
    from tests.conformance.backend import Backend

on_postgresql = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")
SOON = timedelta(milliseconds=1)
TABLES = ('"Sales"', '"Sales.Delayed"', '"Billing"', f'"{ERROR}"', "business")
GOOD = headers_text(NServiceBus__EnclosedMessageTypes="Shop.Messages.PlaceOrder")
FAILING: tuple[Message, ...] = (("works",), ("raises", "works"), "unreadable", ("hopeless",), "expired")
OF_EACH_KIND: tuple[Message, ...] = (*FAILING, ("commit",), ("missing", "raises", "commit", "works"))

Test = Callable[..., Coroutine[Any, Any, None] | None]
KNOWN = [
    *(
        Scenario(case, int(case != "NONE"), 0, batch_size, 1, "def", messages)
        for case in CASES
        for batch_size, messages in ((1, OF_EACH_KIND), (10, OF_EACH_KIND), (10, FAILING))
    ),
    # The retries of the first of a batch that was undone are not to count for the others, received one by one.
    Scenario("SENDS_ATOMIC", 2, 0, 3, 1, "async def", (("missing",), ("missing",), ("works",))),
]
"""Scenarios that are tried in any case: each kind of message in each mode, and what was once wrong."""


def with_known(test: Test) -> Test:
    """Have a test try what is known, too."""
    for scenario in KNOWN:
        test = example(scenario=scenario)(test)
    return test


class Traces(NamedTuple):
    """A message in the end: its place, how often its handler ran, and which calls' rows and sends are left."""

    places: tuple[str, ...]
    calls: int
    rows: list[int]
    sent: list[int]

    def is_as(self, fate: Fate, message: Message) -> bool:
        """Say whether this is that fate, and what is left is of attempts that may leave it."""
        return (
            self.places == (fate.place,)
            and self.calls == fate.calls
            and self.rows == [self.calls] * fate.rows
            and fate.least <= len(self.sent) <= fate.most
            and self._sends_are_of(fate, message)
        )

    def _sends_are_of(self, fate: Fate, message: Message) -> bool:
        """Say whether what the call sent that worked is there, and nothing twice or of a call that raised."""
        must = {self.calls} if fate.place == "done" and fate.calls else set[int]()
        may = {call for call in range(1, self.calls + 1) if _deed(message, call) not in RAISES}
        return must <= set(self.sent) <= may and len(set(self.sent)) == len(self.sent)


def _deed(message: Message, call: int) -> Deed:
    assert not isinstance(message, str)
    return message[min(call, len(message)) - 1]


class Run:
    """An endpoint that goes through one scenario."""

    def __init__(self, backend: Backend, scenario: Scenario) -> None:
        self.backend = backend
        self.scenario = scenario
        self.calls: Counter[int] = Counter()
        self.endpoints = Endpoints(backend, CASES[scenario.case])
        self.sales = self.endpoints.make(
            "Sales",
            batch_size=scenario.batch_size,
            concurrency=scenario.concurrency,
            recoverability=rowbus.Recoverability(scenario.immediate, (), scenario.delayed, SOON),
        )
        if scenario.handler == "def":
            self.sales.handler(self._place_in_thread)
        else:
            self.sales.handler(self._place)

    async def _place(self, message: PlaceOrder, context: rowbus.Context) -> None:
        entry, deed = self._called(message)
        await context.connection.execute(WRITE_BUSINESS, [entry])
        await context.send("Billing", PlaceOrder(entry))
        if deed == "missing":
            await context.send("nowhere", message)
        if deed == "commit":
            await context.connection.execute(FAIL_AT_COMMIT)
        _raise(deed)

    def _place_in_thread(self, message: PlaceOrder, context: rowbus.SyncContext) -> None:
        entry, deed = self._called(message)
        context.connection.execute(WRITE_BUSINESS, [entry])
        context.send("Billing", PlaceOrder(entry))
        if deed == "missing":
            context.send("nowhere", message)
        if deed == "commit":
            context.connection.execute(FAIL_AT_COMMIT)
        _raise(deed)

    def _called(self, order: PlaceOrder) -> tuple[str, Deed]:
        """Note a call; return what it writes and sends, and what it does then."""
        number = int(order.order_id)
        self.calls[number] += 1
        return f"{number}/{self.calls[number]}", _deed(self.scenario.messages[number], self.calls[number])

    async def go(self) -> list[Traces]:
        """Have all messages wait, process them, and return what became of each."""
        await self.backend.execute(";".join(f"delete from {table}" for table in TABLES))
        for number, message in enumerate(self.scenario.messages):
            await self._put(number, message)
        try:
            await self.sales.start()
            await eventually(self._is_empty)
            await self.sales.stop()
        finally:
            await self.endpoints.stop_all()
        return await self._seen()

    async def _put(self, number: int, message: Message) -> None:
        headers = "null" if message == "unreadable" else GOOD
        expires_in = -1 if message == "expired" else None
        body = b'{"order_id":"%d"}' % number
        await self.backend.insert("Sales", headers, body, expires_in=expires_in)

    async def _is_empty(self) -> bool:
        """Look into both tables at once: a message passes from one to the other."""
        query = 'select (select count(*) from "Sales") + (select count(*) from "Sales.Delayed")'
        return await self.backend.values(query) == [0]

    async def _seen(self) -> list[Traces]:
        written = _by_message(await self.backend.business())
        sent = _by_message(await self._orders("Billing"))
        given_up = Counter(await self._orders(ERROR))
        return [
            Traces(
                (ERROR,) * given_up[str(number)] or ("done",),
                self.calls[number],
                written.get(number, []),
                sent.get(number, []),
            )
            for number in range(len(self.scenario.messages))
        ]

    async def _orders(self, queue: str) -> list[str]:
        return [json.loads(row.body or b"")["order_id"] for row in await self.backend.rows(queue)]


def _raise(deed: Deed) -> None:
    if deed == "raises":
        raise ValueError
    if deed == "hopeless":
        raise rowbus.Unrecoverable("hopeless")


def _by_message(entries: list[str]) -> dict[int, list[int]]:
    """Sort `message/call` by message."""
    found: dict[int, list[int]] = {}
    for number, call in sorted(tuple(map(int, entry.split("/"))) for entry in entries):
        found.setdefault(number, []).append(call)
    return found


async def compare(backend: Backend, scenario: Scenario) -> None:
    """Go through a scenario; each message has one of the fates that it may have."""
    seen = await Run(backend, scenario).go()
    for message, one in zip(scenario.messages, seen, strict=True):
        promised = fates(scenario, message)
        assert any(one.is_as(fate, message) for fate in promised), f"{message}: {one}, and not {promised}"


@pytest.fixture
async def stage(backend: Backend) -> Backend:
    """Give a backend with all the tables there are."""
    await backend.create_business_tables()
    await backend.create_queue("Billing")
    await Endpoints(backend, CASES["SENDS_ATOMIC"]).make("Sales").install()
    return backend


patiently = settings(
    deadline=None,
    print_blob=True,
    # The database is emptied before each example: making one anew would take longer than the example itself.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@on_postgresql
@pytest.mark.timeout(600)  # a scenario that fails is made smaller, which takes up to five minutes
@settings(patiently, max_examples=20)
@given(scenario=scenarios())
@with_known
async def test_each_message_has_a_fate_that_it_was_promised(stage: Backend, scenario: Scenario) -> None:
    await compare(stage, scenario)


@on_postgresql
@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(patiently, max_examples=effort(40, 100))
@given(scenario=scenarios())
async def test_in_many_more_scenarios_each_message_has_a_fate_that_it_was_promised(
    stage: Backend, scenario: Scenario
) -> None:
    await compare(stage, scenario)


@given(scenario=scenarios())
def test_a_message_that_is_handled_alone_has_one_fate_only(scenario: Scenario) -> None:
    for message in scenario.messages:
        alone = replace(scenario, batch_size=1)
        assert len(fates(alone, message)) == 1
        assert fates(alone, message) <= fates(scenario, message)
