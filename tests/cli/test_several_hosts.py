"""Every command takes a connection string with several hosts, in both notations, and passes over one that is away."""

from __future__ import annotations

from itertools import cycle
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.fixtures.command_line import CommandLine

pytestmark = pytest.mark.one_version

AWAY = "/nowhere"
COMMANDS = (
    ("log", "install"),
    ("log", "create", "orders"),
    ("log", "append", "orders", "{}"),
    ("log", "list"),
    ("ticker", "--once"),
    ("queue", "create", "Work"),
    ("queue", "send", "Work", "{}", "--type", "Some.Type"),
    ("queue", "list"),
    ("queue", "peek", "Work"),
    ("queue", "purge", "Work", "--yes"),
    ("delayed", "create", "Work"),
    ("delayed", "list"),
    ("delayed", "move", "Work", "--once"),
    ("subscriptions", "create"),
    ("schema", "verify"),
)


def several(dsn: str, notation: str) -> str:
    """Return the address of a database with a host before its own that is away."""
    facts = conninfo_to_dict(dsn)
    hosts, ports = f"{AWAY},{facts['host']}", f"{facts['port']},{facts['port']}"
    if notation == "pairs":
        return make_conninfo(
            "", **facts | {"host": hosts, "port": ports, "target_session_attrs": "read-write"}
        )
    options = f"host={quote(hosts, safe=',')}&port={ports}&target_session_attrs=read-write"
    return f"postgresql://{facts['user']}@/{facts['dbname']}?{options}"


def test_every_command_takes_several_hosts(rowbus: CommandLine) -> None:
    addresses = cycle([several(rowbus.database, notation) for notation in ("URI", "pairs")])

    for command, rowbus.database in zip(COMMANDS, addresses, strict=False):
        done = rowbus(*command)

        assert done.returncode == 0, (command, rowbus.database, done.stdout, done.stderr)
        assert AWAY not in done.stderr


def test_what_serves_takes_several_hosts(rowbus: CommandLine) -> None:
    rowbus.database = several(rowbus.database, "pairs")
    (rowbus.folder / "shop.py").write_text(
        "import rowbus\nendpoint = rowbus.Endpoint('Work')\n"
        "@endpoint.handler('Any')\nasync def ignore(message: dict) -> None: ...\n",
        "utf-8",
    )

    running = rowbus.start("run", "shop:endpoint")

    running.wait_for("is receiving from")
