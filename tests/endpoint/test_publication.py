"""An endpoint publishes its contract when it starts; nothing about that keeps it from starting."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import psycopg
import pytest

import rowbus
from rowbus import contracts
from rowbus.contracts.published import find_published
from rowbus.database.backends import addresses_of, open_database
from rowbus.endpoint import publication
from rowbus.running import backoff
from rowbus.transport.published_contracts.table import (
    LARGEST,
    SEEN_EVERY,
    contracts_address,
    contracts_table,
)
from tests.conformance.transport import eventually
from tests.fixtures.command_line import as_role
from tests.fixtures.every import every

if TYPE_CHECKING:
    from rowbus.contracts.contract import PublishedContract
    from tests.fixtures.command_line import Ask

ROWS = 'select endpoint, version, document from "Rowbus.Contracts" order by published'
TABLE = "to_regclass('\"Rowbus.Contracts\"')"


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str


@rowbus.command("Shop.PlaceOrder")
@dataclass
class NewPlaceOrder:
    order_id: str
    amount: int


def endpoint(database: str, kind: type = PlaceOrder, *, publishes: bool = True) -> rowbus.Endpoint:
    settings = rowbus.EndpointSettings(publish_contract=publishes)
    sales = rowbus.Endpoint("Sales", database=database, settings=settings)

    async def place(message: object) -> None: ...

    place.__annotations__["message"] = kind
    sales.handler(place)
    return sales


def published(database: str) -> list[PublishedContract]:
    with open_database(database).session() as session:
        return find_published(session, addresses_of(database))


async def test_a_contract_is_published_once_a_version(database: str, ask: Ask) -> None:
    for kind in (PlaceOrder, PlaceOrder, NewPlaceOrder):
        async with endpoint(database, kind):
            pass
    found = published(database)
    ((_, old, text), (name, new, _)) = ask(ROWS)

    assert (name, old == new) == ("Sales", False)
    assert contracts.from_asyncapi(msgspec.json.decode(text)) == contracts.describe(endpoint(database))
    assert {one.version for one in found} == {old, new}
    assert contracts.describe(endpoint(database, NewPlaceOrder)) in [one.contract for one in found]


async def test_a_version_is_forgotten_of_which_nobody_was_seen_for_a_month(database: str, ask: Ask) -> None:
    for kind in (PlaceOrder, NewPlaceOrder):
        async with endpoint(database, kind):
            ask("""update "Rowbus.Contracts" set seen = seen - interval '31 days'""")
    (found,) = published(database)
    assert found.contract == contracts.describe(endpoint(database, NewPlaceOrder))

    async with endpoint(database):
        assert ask("""select seen > now() - interval '1 hour' from "Rowbus.Contracts" """) == [(True,)]
        assert published(database)[0].contract == contracts.describe(endpoint(database))


async def test_a_version_that_ran_long_before_the_latest_is_not_the_present_one(
    database: str, ask: Ask
) -> None:
    for kind in (PlaceOrder, NewPlaceOrder):
        async with endpoint(database, kind):
            pass
        ask("""update "Rowbus.Contracts" set seen = seen - interval '3 hours'""")

    (found,) = published(database)

    assert found.contract == contracts.describe(endpoint(database, NewPlaceOrder))


async def test_an_endpoint_that_runs_on_says_so(
    database: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "SEEN_EVERY", SEEN_EVERY / 100_000)
    async with endpoint(database):
        ask("""update "Rowbus.Contracts" set seen = seen - interval '1 hour'""")
        await eventually(
            lambda: ask("""select seen > now() - interval '1 minute' from "Rowbus.Contracts" """) == [(True,)]
        )


async def test_an_outage_of_it_is_said_once_and_ends_nothing(
    database: str, ask: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(publication, "SEEN_EVERY", SEEN_EVERY / 100_000)
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", 0.01)
    caplog.set_level(logging.INFO, "rowbus")
    async with endpoint(database):
        ask('alter table "Rowbus.Contracts" rename column document to text')
        await eventually(lambda: "Could not publish the contract of Sales" in caplog.text)
        ask('alter table "Rowbus.Contracts" rename column text to document')
        await eventually(lambda: "works again" in caplog.text)

    assert caplog.text.count("Could not publish the contract of Sales") == 1


async def test_an_endpoint_that_is_not_to_publishes_nothing(database: str, ask: Ask) -> None:
    async with endpoint(database, publishes=False):
        assert ask(f"select {TABLE}") == [(None,)]


@pytest.mark.one_version
@every("is_there", [False, True])
async def test_a_role_without_the_right_starts_all_the_same(
    *, is_there: bool, database: str, role: str, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a table that is missing and may not be created, nor one that is not granted, is asked for twice."""
    await endpoint(database).install()
    ask('drop table if exists "Rowbus.Contracts"')
    ask("revoke create on schema public from public")
    ask(f'grant select, insert, update, delete on all tables in schema public to "{role}"')
    if is_there:
        _make(database)
    caplog.set_level(logging.INFO, "rowbus")

    async with endpoint(as_role(database, role)):
        found = ask(f"select {TABLE} is not null")

    assert found == [(is_there,)]
    assert "contract" not in caplog.text


def _make(database: str) -> None:
    with open_database(database).session() as session:
        session.run_all(contracts_table(contracts_address(addresses_of(database))).create())


@pytest.mark.one_version
async def test_a_strangers_table_is_not_written_to(database: str, role: str, ask: Ask) -> None:
    _make(database)
    ask(f'alter table "Rowbus.Contracts" owner to "{role}"')

    async with endpoint(database):
        assert ask(ROWS) == []


async def test_a_table_that_somebody_locks_holds_up_no_start(
    database: str, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    _make(database)
    caplog.set_level(logging.INFO, "rowbus")
    with psycopg.connect(database) as other:
        other.execute('lock table "Rowbus.Contracts"')
        async with endpoint(database):
            pass

    assert ask(ROWS) == []
    assert "The contract of endpoint Sales is not published now" in caplog.text


async def test_messages_that_cannot_be_described_keep_no_endpoint_from_its_start(
    database: str, ask: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_parts: object) -> str:
        raise ZeroDivisionError("a property of a class")

    monkeypatch.setattr(publication, "document_of", refuse)
    async with endpoint(database):
        pass
    monkeypatch.setattr(publication, "document_of", lambda _: "x" * (LARGEST + 1))
    async with endpoint(database):
        pass

    assert f"more than the {LARGEST} bytes that are read" in caplog.text
    assert ask(f"select {TABLE}") == [(None,)]
    assert "Endpoint Sales publishes no contract: its messages cannot be described" in caplog.text
    assert "a property of a class" in caplog.text


async def test_documents_that_are_none_are_passed_over(database: str, ask: Ask) -> None:
    _make(database)
    for number, text in enumerate(("", "{}", "[]", '{"asyncapi": "3.0.0", "channels": 7}', "null")):
        ask(
            'insert into "Rowbus.Contracts" (endpoint, version, document) values (%s, %s, %s)',
            (str(number), "", text),
        )

    async with endpoint(database):
        assert [one.endpoint for one in published(database)] == ["Sales"]
