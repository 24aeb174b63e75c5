"""`rowbus sagas`: an operator sees what a process remembers, and ends one that hangs."""

from __future__ import annotations

import itertools
import json
import uuid
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.sagas.history.postgresql import HistoryTable
from rowbus.sagas.postgresql import SagaTable
from rowbus.sagas.timeouts import Timeout, write_timeouts
from rowbus.transport.delayed.postgresql import DelayedTable
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.command_line import Ask, CommandLine

pytestmark = pytest.mark.one_version

TABLE = SagaTable(QueueAddress("public", "Sales.OrderSaga"))
SALES = QueueAddress("public", "Sales")
ERROR = QueueAddress("public", "error")
DELAYED = QueueAddress("public", "Sales.Delayed")
SAGA = ("Sales", "OrderSaga")


@pytest.fixture
def waiting(rowbus: CommandLine) -> str:
    """Give the id of a saga that waits."""
    saga_id = str(uuid.uuid4())
    with psycopg.connect(rowbus.database) as connection:
        for statement in TABLE.create():
            connection.execute(statement.query.text)
        connection.execute(
            'insert into "Sales.OrderSaga" (id, correlation, state, version, concurrency, original_message_id)'
            """ values (%s, 'R1', '{"steps": ["placed"]}', 1, 3, 'm-1')""",
            [saga_id],
        )
    return saga_id


def test_what_goes_on_is_listed_and_shown(rowbus: CommandLine, waiting: str) -> None:
    (listed,) = json.loads(rowbus("sagas", "list", *SAGA, "--json").stdout)
    assert (listed["id"], listed["correlation"], listed["changes"]) == (waiting, "R1", 3)
    assert waiting in rowbus("sagas", "list", *SAGA).stdout

    shown = rowbus("sagas", "show", *SAGA, "R1").stdout
    assert f"id        {waiting}\nfound by  R1\n" in shown
    assert '"placed"' in shown
    assert json.loads(rowbus("sagas", "show", *SAGA, waiting, "--json").stdout) == listed


def test_one_that_hangs_is_ended_when_one_says_yes(rowbus: CommandLine, waiting: str, ask: Ask) -> None:
    refused = rowbus("sagas", "complete", *SAGA, "R1")
    assert "add --yes" in refused.stderr
    assert rowbus("sagas", "complete", *SAGA, "R1", "--yes").stdout == f"Ended saga {waiting}.\n"
    assert ask('select count(*) from "Sales.OrderSaga"') == [(0,)]
    none = rowbus("sagas", "list", *SAGA)
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr == 'rowbus: no saga of "public"."Sales.OrderSaga" goes on\n'


def test_what_is_not_there_is_said(rowbus: CommandLine, waiting: str) -> None:
    missing = rowbus("sagas", "show", *SAGA, "R2")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == 'rowbus: there is no saga \'R2\' in "public"."Sales.OrderSaga"\n'
    nowhere = rowbus("sagas", "list", "Sales", "Nothing")
    assert "the table of the saga does not exist" in nowhere.stderr


def test_timeouts_that_are_lost_are_sent_again(rowbus: CommandLine, waiting: str, ask: Ask) -> None:
    due = datetime.now(UTC) + timedelta(days=3)
    timeouts = [
        Timeout(f"t-{number}", due, {Header.ENCLOSED_MESSAGE_TYPES: "Shop.Overdue"}, b"{}")
        for number in range(4)
    ]
    with psycopg.connect(rowbus.database) as connection:
        for table in (QueueTable(SALES), QueueTable(ERROR), DelayedTable(DELAYED)):
            for statement in table.create():
                connection.execute(statement.query.text)
        for name, timeout in zip(("Sales", "error", "Sales.Delayed"), timeouts, strict=False):
            columns = ("due", timeout.due) if name == "Sales.Delayed" else ("seq", 1)
            connection.execute(
                f'insert into "{name}" (id, headers, body, {columns[0]}) values (gen_random_uuid(), %s, %s, %s)',
                [f'{{"NServiceBus.MessageId":"{timeout.id}"}}', b"{}", columns[1]],
            )
        connection.execute('update "Sales.OrderSaga" set timeouts = %s', [write_timeouts(timeouts)])

    sent = rowbus("sagas", "resend-timeouts", *SAGA)
    assert (sent.returncode, sent.stdout) == (0, "Sent 1 timeouts again for the 1 sagas looked at.\n"), (
        sent.stderr
    )
    ((headers, at),) = ask("""select headers, due from "Sales.Delayed" where headers like '%t-3%'""")
    assert at == due
    found = json.loads(str(headers))
    assert (found[Header.SAGA_ID], found[Header.IS_SAGA_TIMEOUT_MESSAGE]) == (waiting, "True")
    assert found[Header.FORWARD_DESTINATION] == '"public"."Sales"'
    again = rowbus("sagas", "resend-timeouts", *SAGA)
    assert (again.returncode, again.stdout) == (1, "Sent 0 timeouts again for the 1 sagas looked at.\n")


def test_what_a_saga_did_is_shown_after_its_end(rowbus: CommandLine, waiting: str) -> None:
    table = HistoryTable(QueueAddress("public", "Sales.OrderSaga.History"))
    with psycopg.connect(rowbus.database) as connection:
        for statement in table.create():
            connection.execute(statement.query.text)
        states = [None, '{"paid": 0, "id": "R9"}', '{"paid": 5, "id": "R9"}']
        for number, (before, after) in enumerate(itertools.pairwise(states), 1):
            connection.execute(
                'insert into "Sales.OrderSaga.History" values (%s, %s, %s, %s, %s, %s, %s, %s)',
                [waiting, number, "R9", f"m-{number}", "Shop.Pay", before, after, number == 2],
            )
    shown = rowbus("sagas", "show", *SAGA, "R9", "--history").stdout
    assert "Shop.Pay  m-2\n   paid: 0 → 5\n   completed\n" in shown
    lines = json.loads(rowbus("sagas", "show", *SAGA, waiting, "--history", "--json").stdout)
    assert [line["number"] for line in lines] == [1, 2]
    assert rowbus("sagas", "show", *SAGA, "R8", "--history").returncode == 1
