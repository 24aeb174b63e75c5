"""Secrets on the command line: no password is shown, and nothing in a message commands the terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.fixtures.every import every

if TYPE_CHECKING:
    from tests.fixtures.command_line import CommandLine

pytestmark = pytest.mark.one_version  # it is about the command line, not about the server

SECRET = "geheim"
WRONG = [
    f"postgresql://u:{SECRET}@127.0.0.1:9/db",
    f"postgresql://u:{SECRET}@x/y@127.0.0.1:9/db",
    f"postgresql://u:x@{SECRET}/y@127.0.0.1:9/db",
    f"postgresql+psycopg://u:{SECRET}@127.0.0.1/db",
    f"host=127.0.0.1 port=9 password={SECRET}",
    f"mssql://u:x@{SECRET}/y@127.0.0.1:9/db",
]
COMMANDS = [["doctor"], ["queue", "list", "--json"], ["queue", "list", "-v"], ["log", "list", "-v"]]


@every("given", WRONG)
@every("command", COMMANDS, ids=" ".join)
def test_no_command_shows_a_password(rowbus: CommandLine, given: str, command: list[str]) -> None:
    done = rowbus(*command, ROWBUS_DATABASE=given)

    assert done.returncode
    assert SECRET not in done.stdout + done.stderr


def test_a_password_on_the_command_line_is_warned_of_once(rowbus: CommandLine) -> None:
    given = make_conninfo(rowbus.database, password=SECRET)
    for options in (
        ["--database", given, "queue", "list", "--json"],
        ["queue", "list", "--json", "--database", given],
    ):
        done = rowbus(*options, ROWBUS_DATABASE="")

        assert done.stderr.count("PGPASSFILE") == 1
        assert SECRET not in done.stderr
        assert json.loads(done.stdout) == []


def test_a_password_from_the_environment_is_not_warned_of(rowbus: CommandLine) -> None:
    done = rowbus("queue", "list", "--json", ROWBUS_DATABASE=make_conninfo(rowbus.database, password=SECRET))

    assert "PGPASSFILE" not in done.stderr


def test_a_message_commands_no_terminal_whatever_it_holds(rowbus: CommandLine) -> None:
    evil = "m-1\n1  Shop.Forged\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    rowbus("queue", "create", "Sales")
    headers = json.dumps(
        {"NServiceBus.MessageId": evil, "NServiceBus.EnclosedMessageTypes": evil, "Note": evil}
    )
    with psycopg.connect(rowbus.database) as connection:
        connection.execute(
            'insert into "Sales" (id, headers, body) values (gen_random_uuid(), %s, %s)',
            (headers, json.dumps(evil, ensure_ascii=False).encode()),
        )

    for option in (["--limit=1"], ["--headers"], ["--json"]):
        done = rowbus("queue", "peek", "Sales", *option)
        assert done.returncode == 0, done.stderr
        assert done.stdout.replace("\n", "").isprintable()
        assert not [line for line in done.stdout.split("\n") if line.startswith("1  Shop.Forged")]
    (message,) = json.loads(rowbus("queue", "peek", "Sales", "--json").stdout)
    assert message["headers"]["Note"] == evil
