"""Sagas and recurring messages in the browser: found, read, ended, sent now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rowbus.database.backends import open_database
from rowbus.messages.address import QueueAddress
from rowbus.sagas.history.table import Transition, history_table
from rowbus.sagas.table import Beginning, saga_table
from rowbus.transport.recurring.table import recurring_table
from rowbus.web.settings import WebSettings
from tests.fixtures.command_line import Ask
from tests.web.conftest import browser, confirm
from tests.web.failures import text_of
from tests.web.shop import HOSTILE, assert_is_text

SAGAS = QueueAddress("public", "Sales.OrderSaga")
RECURRING = QueueAddress("public", "Sales.Recurring")
TABLE = {"table": str(SAGAS)}


def begin(dsn: str, *keys: str) -> None:
    """Have sagas go on, the first with a history."""
    history = history_table(SAGAS.satellite("History"))
    with open_database(dsn).session() as session, session.transaction():
        for statement in (*saga_table(SAGAS).create(), *history.create()):
            session.run(statement)
        for key in keys:
            row = session.run(saga_table(SAGAS).find_or_begin(Beginning(key, 1, None, "message-1")))
            assert row is not None
            session.run(saga_table(SAGAS).write(row, '{"paid": true, "card": "4111"}', 1))
            states = {"before": '{"paid": false}', "after": '{"paid": true}', "is_completed": False}
            told = Transition(row.id, 1, key, "message-1", "Shop.Pay", **states)  # type: ignore[arg-type] # of two types
            session.run(history.record(told))


def declare(dsn: str) -> None:
    """Have an endpoint with a recurring message."""
    with open_database(dsn).session() as session:
        for statement in recurring_table(RECURRING).create():
            session.run(statement)
        later = datetime.now(UTC) + timedelta(days=9)
        session.run(recurring_table(RECURRING).declare("nightly", "0 7 * * * UTC", later))


async def test_a_saga_is_found_by_its_key_shows_what_it_did_and_is_ended(database: str, ask: Ask) -> None:
    begin(database, "A-17", "A-18", HOSTILE)
    async with browser(database, WebSettings(mask=("$.card",))) as client:
        tables = (await client.get("/sagas")).text
        listed = await client.get("/sagas/table", params=TABLE)
        found = (await client.get("/sagas/table", params={**TABLE, "key": "A-17"})).text
        saga = text_of((await client.get("/sagas/saga", params={**TABLE, "key": "A-17"})).text)
        hostile = await client.get("/sagas/saga", params={**TABLE, "key": HOSTILE})
        ((saga_id,),) = ask("select id::text from \"Sales.OrderSaga\" where correlation = 'A-17'")
        await confirm(client, "/sagas/end", {**TABLE, "id": str(saga_id)})
        after = text_of((await client.get("/sagas/saga", params={**TABLE, "key": "A-17"})).text)
        none = [
            (await client.get("/sagas/saga", params=query)).status_code
            for query in ({**TABLE, "key": "B-1"}, {"table": "pg_catalog.pg_class"}, {})
        ]

    assert "Sales.OrderSaga" in tables
    assert ("A-17" in found, "A-18" in found) == (True, False)
    assert "paid: false → true" in saga
    assert "4111" not in saga
    assert_is_text(listed)
    assert_is_text(hostile)
    assert "It has completed, or was ended." in after
    assert none == [404, 404, 404]
    assert ask('select count(*) from "Sales.OrderSaga"') == [(2,)]
    assert ask('select action, subject from "Rowbus.Operations"') == [("end a saga", f"{SAGAS}: A-17")]


async def test_a_recurring_message_is_sent_now_by_its_endpoint(database: str, ask: Ask) -> None:
    declare(database)
    form = {"table": str(RECURRING), "name": "nightly"}
    async with browser(database) as client:
        shown = text_of((await client.get("/recurring")).text)
        done = (await confirm(client, "/recurring/send-now", form)).text
        gone = (await confirm(client, "/recurring/send-now", {**form, "name": "x"})).text

    assert "nightly 0 7 * * * UTC" in shown
    assert "nightly is due now" in done
    assert "no recurring message x" in gone
    assert ask('select next_due <= now() from "Sales.Recurring"') == [(True,)]
