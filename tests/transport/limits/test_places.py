"""Places of keys on each PostgreSQL: what sessions take beside each other, and when it is free again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg

import rowbus
from rowbus.database.backends import open_database
from rowbus.messages.address import PostgresAddresses
from rowbus.messages.message import MessageRow, ReadMessage
from rowbus.transport.limits.concurrency import CrowdedMessage, Places
from rowbus.transport.limits.places import Guess, PlaceKeeper
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Runs

QUEUE = rowbus.QueueAddress("public", "Sales")


def keeper(most: int) -> PlaceKeeper:
    async def find(rows: Sequence[MessageRow], _session: Runs) -> list[CrowdedMessage]:
        return [
            CrowdedMessage(ReadMessage(row, {}, {}), (Places(key, most),))
            for row in rows
            if (key := key_of(row))
        ]

    guess = Guess.of("Charge", rowbus.Concurrency(most, by="customer"))
    assert guess is not None
    return PlaceKeeper(QUEUE, find, catalog_of(PostgresAddresses()).clock, [guess])


def key_of(row: MessageRow) -> str:
    return f"Charge/{json.loads(row.body)['customer']}" if row.body else row.headers


async def lacking(session: AsyncSession, most: int, *keys: str) -> list[str]:
    rows = [MessageRow(str(number), None, key, b"", number) for number, key in enumerate(keys)]
    return [row.headers for row in await keeper(most).take(rows, session, id, keeps_place=False)]


GUESSED = {
    '{"customer":"A B","number":1}': "A B",
    '{"number": 1, "customer": 42}': "42",
    '{"customer": "Zo\u00eb"}': None,  # in the body as an escape, in the key as a letter
    '{"of": {"customer": "B"}, "customer": "A"}': None,
    '{"customer" : "A"}': None,
}
"""Bodies, and the customers of which the database is to have guessed the places."""


async def test_a_place_that_can_be_guessed_is_taken_as_the_message_is_received(database: str) -> None:
    table = QueueTable(QUEUE)
    session = await open_database(database).connect()
    headers = '{"NServiceBus.EnclosedMessageTypes":"Charge;Shop.Command"}'
    strange = [(headers, b"\xff\x00"), (headers, None), ('{"a":"b"}', b'{"customer":"A"}'), ("{", b"")]
    try:
        async with session.transaction():
            for statement in table.create():
                await session.run(statement)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.cursor().executemany(
                'insert into "Sales" (id, headers, body) values (gen_random_uuid(), %s, %s)',
                [*strange, *((headers, body.encode()) for body in GUESSED)],
            )
        look = keeper(2).receive(table, 20, FROM_THE_START, most_bytes=1000, passed_over=())
        async with session.transaction():
            rows = await session.run(look)
    finally:
        await session.close()

    found = {row.body.decode(): row.place for row in rows[len(strange) :] if row.body}
    right = {body: f"Charge/{json.loads(body)['customer']}" for body in GUESSED}
    assert [body for body in GUESSED if found[body] == right[body]] == [
        body for body, customer in GUESSED.items() if customer is not None
    ]
    assert len(rows) == len(strange) + len(GUESSED)


async def test_a_guess_counts_if_it_is_right(database: str) -> None:
    """The other customer, whose place was guessed, has one fewer until then."""
    first, second = [await open_database(database).connect() for _ in range(2)]
    body = b'{"customer": "A"}'
    try:
        async with first.transaction(), second.transaction():
            wrong, right = MessageRow("1", None, "", body, 1, "Charge/B"), MessageRow("2", None, "", body, 2)
            assert await keeper(1).take([wrong], first, id, keeps_place=False) == {}
            assert [*await keeper(1).take([right], second, id, keeps_place=False)] == [right]
            guessed = right._replace(place="Charge/A")
            assert await keeper(1).take([guessed], second, id, keeps_place=False) == {}
    finally:
        await first.close()
        await second.close()


async def test_places_are_taken_beside_each_other_and_free_when_transactions_end(database: str) -> None:
    first, second, third = [await open_database(database).connect() for _ in range(3)]
    try:
        async with third.transaction():
            async with first.transaction():
                assert await lacking(first, 2, "A", "B", "A", "") == []
                async with second.transaction():
                    assert await lacking(second, 2, "A") == []
                    assert await lacking(third, 2, "A", "B", "C", "A") == ["A", "A"]
                assert await lacking(third, 2, "A") == []
            assert await lacking(third, 1, "B") == []
        async with second.transaction():
            assert await lacking(second, 1, "A", "B", "C") == []
            assert await lacking(first, 1, "A") == ["A"]
    finally:
        for session in (first, second, third):
            await session.close()
