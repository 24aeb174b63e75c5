"""`rowbus sagas`: an operator sees what a process remembers, and ends one that hangs."""

from __future__ import annotations

import json
import uuid

import psycopg
import pytest

from rowbus.messages.address import QueueAddress
from rowbus.sagas.postgresql import SagaTable
from tests.fixtures.command_line import Ask, CommandLine

pytestmark = pytest.mark.one_version

TABLE = SagaTable(QueueAddress("public", "Sales.OrderSaga"))
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
