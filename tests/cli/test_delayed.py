"""`rowbus delayed`: what waits is shown, nothing is taken before it is due, and a mover runs by itself."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from rowbus.transport.client import Client
from tests.conformance.endpoints import PlaceOrder
from tests.fixtures.command_line import Ask, CommandLine

pytestmark = pytest.mark.one_version

AwaitRows = Callable[[str, int], None]
ARRIVED = 'select count(*) from "Sales"'
WAITING = 'select count(*) from "Web.Delayed"'
LEADING = "Leading: moving the messages of"


@pytest.fixture
def web(rowbus: CommandLine) -> CommandLine:
    """Give a command line on a database with a table of delayed messages of Web, and a queue Sales."""
    assert rowbus("delayed", "create", "Web").stdout == 'Created "public"."Web.Delayed".\n'
    assert rowbus("delayed", "create", "Web").stdout == '"public"."Web.Delayed" was there already.\n'
    rowbus("queue", "create", "Sales", "error")
    return rowbus


def delay(dsn: str, *delays: timedelta) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        client = Client(connection, delay_through="Web")
        for number, one in enumerate(delays):
            client.send("Sales", PlaceOrder(str(number)), delay=one)
    time.sleep(0.01)


def test_list_shows_the_tables_and_what_is_due_next(web: CommandLine, ask: Ask) -> None:
    delay(web.database, timedelta(hours=2), timedelta(minutes=3), timedelta(milliseconds=1))

    (table,) = json.loads(web("delayed", "list", "--json").stdout)
    listed = json.loads(web("delayed", "list", "Web", "--json").stdout)
    shown = web("delayed", "list", "Web").stdout

    assert (table["table"], table["waiting"], table["overdue"]) == ('"public"."Web.Delayed"', 3, 1)
    assert '"public"."Web.Delayed"' in web("delayed", "list").stdout
    assert [one["destination"] for one in listed] == ['"public"."Sales"'] * 3
    assert sorted(one["due"] for one in listed) == [one["due"] for one in listed]
    assert "Shop.Messages.PlaceOrder" in shown
    assert "1 h 59 min" in shown
    assert re.search(r"  -\d+ s  ", shown)
    assert ask(WAITING) == [(3,)]


def test_cancel_deletes_one_message_and_says_when_it_is_not_there(web: CommandLine, ask: Ask) -> None:
    delay(web.database, timedelta(hours=2), timedelta(hours=1))
    (first, _) = json.loads(web("delayed", "list", "Web", "--json").stdout)
    message_id = first["headers"]["NServiceBus.MessageId"]
    cancelled = web("delayed", "cancel", "Web", message_id)
    again = web("delayed", "cancel", "Web", message_id)

    assert cancelled.stdout == f"Cancelled {message_id}.\n"
    assert (again.returncode, again.stdout) == (1, "")
    assert f'no message {message_id} waits in "public"."Web.Delayed"' in again.stderr
    assert ask(WAITING) == [(1,)]


def test_send_now_moves_one_message_and_says_when_it_is_not_there(web: CommandLine, ask: Ask) -> None:
    delay(web.database, timedelta(hours=2), timedelta(hours=1))
    (first, _) = json.loads(web("delayed", "list", "Web", "--json").stdout)
    message_id = first["headers"]["NServiceBus.MessageId"]
    sent = web("delayed", "send-now", "Web", message_id)
    again = web("delayed", "send-now", "Web", message_id)

    assert sent.stdout == f"Sent {message_id}.\n"
    assert (again.returncode, again.stdout) == (1, "")
    assert f'no message {message_id} waits in "public"."Web.Delayed"' in again.stderr
    assert (ask(WAITING), ask(ARRIVED)) == ([(1,)], [(1,)])


def test_send_now_leaves_a_message_whose_queue_is_gone(web: CommandLine, ask: Ask) -> None:
    delay(web.database, timedelta(hours=2))
    ask('drop table "Sales"')
    (one,) = json.loads(web("delayed", "list", "Web", "--json").stdout)
    sent = web("delayed", "send-now", "Web", one["headers"]["NServiceBus.MessageId"])

    assert sent.returncode != 0
    assert '"public"."Sales": the queue does not exist' in sent.stderr
    assert ask(WAITING) == [(1,)]


def test_list_says_when_there_is_no_table(rowbus: CommandLine) -> None:
    listed = rowbus("delayed", "list")

    assert listed.returncode == 1
    assert "there is no table of delayed messages" in listed.stderr
    assert "rowbus delayed create" in rowbus("delayed", "list", "Web").stderr


def test_a_table_with_the_readable_column_is_listed_stores_and_is_moved_from(
    web: CommandLine, ask: Ask
) -> None:
    created = web("delayed", "create", "Web", "--body-string")
    delay(web.database, timedelta(hours=2), timedelta(milliseconds=1))

    (listed,) = json.loads(web("delayed", "list", "--json").stdout)
    moved = web("delayed", "move", "Web", "--once")

    assert created.returncode == 0
    assert (listed["table"], listed["waiting"]) == ('"public"."Web.Delayed"', 2)
    assert moved.stdout == "Moved 1 message.\n"
    assert ask('select bodystring is not null from "Web.Delayed"') == [(True,)]


def test_doctor_warns_of_what_nobody_moves(web: CommandLine, ask: Ask) -> None:
    delay(web.database, timedelta(hours=1))
    healthy = _found(web)
    ask("update \"Web.Delayed\" set due = now() - interval '5 minutes'")

    assert healthy == ("ok", "1 delayed message")
    level, text = _found(web)
    assert level == "warn"
    assert text.startswith("1 of 1 delayed messages are overdue, the first for 5 min")


def _found(web: CommandLine) -> tuple[str, str]:
    findings = json.loads(web("doctor", "--json").stdout)
    (finding,) = [one for one in findings if one["subject"] == '"public"."Web.Delayed"']
    return finding["level"], finding["text"]


def test_move_once_moves_what_is_due_and_nothing_else(web: CommandLine, ask: Ask) -> None:
    delay(web.database, timedelta(hours=2), timedelta(milliseconds=1))

    moved = web("delayed", "move", "Web", "--once")

    assert moved.stdout == "Moved 1 message.\n"
    assert (ask(ARRIVED), ask(WAITING)) == ([(1,)], [(1,)])
    assert web("delayed", "move", "Nobody", "--once").returncode == 1


def test_move_serves_until_it_is_told_to_end_and_another_takes_over(
    web: CommandLine, ask: Ask, await_rows: AwaitRows
) -> None:
    leader = web.start("delayed", "move", "Web")
    leader.wait_for(LEADING)
    standby = web.start("delayed", "move", "Web")
    standby.wait_for("Standing by")
    delay(web.database, timedelta(milliseconds=100))
    await_rows(ARRIVED, 1)

    leader.tell(signal.SIGTERM)

    assert leader.wait() == 0
    standby.wait_for(LEADING)
    delay(web.database, timedelta(milliseconds=100))
    await_rows(ARRIVED, 2)


ODD = ("20000-01-01", "0044-03-15 BC", "infinity", "-infinity")


def test_times_that_no_calendar_of_pythons_has_break_nothing(web: CommandLine, ask: Ask) -> None:
    for number, odd in enumerate(ODD):
        row = f"'00000000-0000-0000-0000-00000000000{number}'"
        headers = """{"NServiceBus.FailedQ": "Sales"}"""
        for table in ("Sales", "error"):
            ask(
                f"insert into \"{table}\" (id, expires, headers, body) values ({row}, '{odd}', '{headers}', '')"
            )
        ask(f"insert into \"Web.Delayed\" (id, due, headers, body) values ({row}, '{odd}', '{{}}', '')")
    web("queue", "create", "Empty")
    for words in ("pause endpoint Web --why so", "queue purge Empty --yes"):
        assert web(*words.split()).returncode == 0
    ask("update \"Rowbus.Pauses\" set began = '20000-01-01', until = 'infinity'")
    ask("update \"Rowbus.Operations\" set began = '0044-03-15 BC', noted = 'infinity'")

    commands = (
        "pause",
        "queue purge Empty --yes",
        "queue peek Sales",
        "errors list",
        *(f"errors show 00000000-0000-0000-0000-00000000000{number}" for number in range(len(ODD))),
        "delayed list",
        "delayed list Web",
        "doctor",
    )
    for command in commands:
        done = web(*command.split())
        assert "Traceback" not in done.stderr, done.stderr
        assert "timestamp" not in done.stderr, done.stderr
        assert command == "doctor" or done.returncode == 0, done.stderr
    assert "9999" in web("delayed", "list", "Web").stdout
