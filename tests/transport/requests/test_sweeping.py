"""The queue of an asker that is gone is removed by another, and that of one that lives is not."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.messages.address import MAX_QUEUE_BYTES, QueueAddress
from rowbus.running.critical import Alarm, log_critical
from rowbus.transport.requests.decisions import (
    MOST_LOOKED_AT,
    LeftBehind,
    discriminator,
    is_for_answers,
    shortened,
)
from rowbus.transport.requests.receiver import Sweeper
from tests.conformance.backend import Backend
from tests.conformance.on_sqlserver import SqlServer
from tests.conformance.transport import eventually
from tests.fixtures.every import every
from tests.transport.requests.conftest import Clients

LEFT = "Web.answers-0123456789ab"
OTHERS = (
    "Sales.answers",
    "Sales.answers-1",
    "answers-0123456789ab",
    f"{LEFT}.x",
)


def sweeper(backend: Backend) -> Sweeper:
    own = backend.queue("Web.answers-ffffffffffff")
    return Sweeper(backend.database, own, Alarm(log_critical(logging.getLogger("rowbus.requests"))))


async def test_a_queue_without_an_owner_is_removed_but_not_at_the_first_look(backend: Backend) -> None:
    await backend.create_queue(LEFT)
    sweeping = sweeper(backend)

    await sweeping.do()
    assert LEFT.lower() in await backend.tables()

    async def removed() -> bool:
        # The server may need a moment to end the session of the look before, which has the lock of an owner.
        await sweeping.do()
        return LEFT.lower() not in await backend.tables()

    await eventually(removed)


async def test_the_queues_of_askers_that_live_stay(backend: Backend, clients: Clients) -> None:
    """However many they are: Babelfish ends at the fifth lock that it refuses a session."""
    sweeping = sweeper(backend)
    async with AsyncExitStack() as stack:
        for _ in range(6):
            await stack.enter_async_context(clients.make())
        for _ in range(3):
            await sweeping.do()
        assert len(await clients.queues()) == 6


@pytest.mark.only("SQL Server", reason="PostgreSQL keeps names as they are written")
async def test_the_queue_of_answers_has_a_name_that_babelfish_lists_as_it_is(
    backend: Backend, clients: Clients
) -> None:
    """The lock of its owner is found by the name in the list of tables."""
    assert isinstance(backend, SqlServer)
    async with clients.make("Web"):
        (queue,) = [name for name in await backend._tables(backend.schema) if ".answers-" in name]
    assert queue.startswith("web.answers-")


async def test_queues_of_other_names_stay(backend: Backend) -> None:
    for name in OTHERS:
        await backend.create_queue(name)
    before = await backend.tables()
    sweeping = sweeper(backend)

    for _ in range(3):
        await sweeping.do()

    assert await backend.tables() == before


@every("name", [*OTHERS, "Sales.answers-0123456789AB"])  # Babelfish has no capitals
def test_a_name_that_was_not_made_here_is_no_queue_of_answers(name: str) -> None:
    assert not is_for_answers(name)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_a_queue_of_answers_is_known_by_its_name_and_fits_postgresql(name: str) -> None:
    table = f"{shortened(name)}.{discriminator('0123456789abcdef')}"
    assert is_for_answers(table)
    assert len(table.encode()) <= MAX_QUEUE_BYTES
    QueueAddress("public", table).validate()


def test_only_what_was_left_at_the_look_before_is_left_behind() -> None:
    left = LeftBehind()
    assert left.looked(["a", "b"]) == frozenset()
    assert left.looked(["b", "c"]) == {"b"}
    assert left.looked([]) == frozenset()
    assert left.looked(["b"]) == frozenset()


def test_a_look_is_at_a_few_queues_first_those_without_an_owner_and_all_have_their_turn() -> None:
    left, names = LeftBehind(), [f"{number:03}" for number in range(50)]
    seen: set[str] = set()
    for _ in range(3):
        chosen = left.next(names)
        assert len(chosen) == MOST_LOOKED_AT
        assert left.looked([]) == frozenset()
        seen |= {*chosen}
    assert seen == {*names}
    left.looked(["030"])
    assert left.next(names)[0] == "030"
    assert left.looked(["030"]) == {"030"}
    assert left.next([]) == []
