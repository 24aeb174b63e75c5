"""The command line on SQL Server, in this process, so that the stand-in's driver is the one it finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rowbus.cli.application import app
from rowbus.errors import ConfigurationError, RowbusError
from tests.conformance.backend import Backend

pytestmark = pytest.mark.only("SQL Server", reason="PostgreSQL's commands are tested as programs")


class Shell:
    """Runs commands on the backend's schema."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def run(self, *arguments: str, code: int = 0) -> str:
        place = {"ROWBUS_DATABASE": self.backend.dsn, "COLUMNS": "200"}
        result = CliRunner().invoke(app, [*arguments], env=place)
        if isinstance(result.exception, RowbusError):  # which the program shows, and the runner does not
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    def json(self, *arguments: str, code: int = 0) -> Any:  # noqa: ANN401 - whatever JSON holds
        return json.loads(self.run(*arguments, "--json", code=code))

    def listed(self) -> dict[str, Any]:
        """Return the queues of the catalog, others' as well, by their addresses; Babelfish has no capitals."""
        return {queue["queue"].lower(): queue for queue in self.json("queue", "list")}


@pytest.fixture
def shell(backend: Backend) -> Shell:
    return Shell(backend)


def test_a_queue_is_made_listed_verified_and_found_in_order(shell: Shell) -> None:
    address = str(shell.backend.queue("Sales"))

    shell.run("queue", "create", address)
    listed = shell.listed()
    verified = {queue["queue"]: queue for queue in shell.json("schema", "verify", "--queue", address)}
    findings = shell.json("doctor")

    assert listed[address.lower()]["depth"] == 0
    assert listed[address.lower()]["in_hand"] is None
    assert verified[address]["differences"] == []
    subjects = {finding["subject"].lower() for finding in findings}
    assert subjects >= {"server", "connection", "durability", address.lower()}


def test_messages_are_sent_looked_at_and_purged(shell: Shell) -> None:
    address = str(shell.backend.queue("Sales"))
    shell.run("queue", "create", address)

    shell.run("queue", "send", address, '{"a": 1}', "--type", "Shop.Placed")
    assert "Shop.Placed" in shell.run("queue", "peek", address)
    assert "1" in shell.run("queue", "purge", address, "--yes")
    assert shell.listed()[address.lower()]["depth"] == 0


def test_what_sqlcmd_runs_is_printed(shell: Shell) -> None:
    address = str(shell.backend.queue("Sales"))

    assert "create nonclustered index Index_RowVersion" in shell.run("schema", "sql", "--queue", address)
    grants = shell.run("schema", "grants", "--queue", address, "--receive", "--role", "app")
    assert "grant select, delete on" in grants
    viewing = shell.run("schema", "grants", "--queue", address, "--view", "--role", "support")
    assert viewing.startswith("grant select on")
    operating = shell.run("schema", "grants", "--queue", address, "--operate", "--role", "support")
    assert [line.partition(" on ")[0] for line in operating.splitlines()] == [
        "grant select, delete",
        "grant insert",
        "grant select",
    ]


def test_logs_are_refused_in_words(shell: Shell) -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL only"):
        shell.run("log", "list")


def test_an_endpoints_other_tables_are_made_and_granted(shell: Shell) -> None:
    sales = shell.backend.queue("Sales")
    schema = ("--schema", sales.schema)

    shell.run("subscriptions", "create", *schema)
    shell.run("delayed", "create", "Sales", *schema)

    assert "no subscriptions" in shell.run("subscriptions", "list", *schema, code=1)
    assert "sales.delayed" in shell.run("delayed", "list", *schema).lower()


def test_an_endpoint_may_put_its_delayed_retries_back_into_its_own_queue(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sqlserver_shop.py").write_text('import rowbus\nsales = rowbus.Endpoint("Sales")\n')
    monkeypatch.chdir(tmp_path)

    printed = shell.run("schema", "grants", "sqlserver_shop:sales", "--role", "app").splitlines()

    granted = {line.partition(" on ")[0] for line in printed if ".[Sales] to" in line}
    assert granted == {"grant select, delete", "grant insert"}


def test_failed_messages_are_counted_and_discarded(shell: Shell) -> None:
    error = str(shell.backend.queue("error"))
    shell.run("queue", "create", error)
    shell.run("queue", "send", error, "{}", "--type", "Shop.Placed")

    counted = shell.run("errors", "list", "--error-queue", error)

    assert "Shop.Placed" in counted
