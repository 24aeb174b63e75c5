"""The embedded server on the command line: services that say where they run, and the verbs that look after it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures.command_line import PATIENCE, CommandLine, Running, has_ended
from tests.fixtures.database import run_directory
from tests.fixtures.every import every
from tests.fixtures.forked import ROWBUS

pytestmark = pytest.mark.one_version

SALES = """
import rowbus

sales = rowbus.Endpoint("Sales")
log = rowbus.Log(None, "orders")


@sales.handler("Shop.PlaceOrder")
async def place_order(order: dict) -> None: ...


@log.consumer("revenue")
async def revenue(event: rowbus.Event) -> None: ...
"""

USER = """
import signal
from rowbus.database.embedded import embedded_dsn
print("using", embedded_dsn(), flush=True)
signal.pause()
"""

NOTICE = "rowbus: no database is named, so this runs on the embedded server, which is for development. "
REFUSAL = (
    "rowbus: No database is named, and the embedded server is for development: this output is no terminal, so it looks "
    "like a service. Name its database with --database or ROWBUS_DATABASE; or, if the embedded server is meant, give "
    "--embedded or set ROWBUS_EMBEDDED=1.\n"
)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Give a place for a server that does not exist yet."""
    with run_directory(Path(tempfile.gettempdir())) as folder:
        yield folder / "server"


@pytest.fixture
def embedded(rowbus: CommandLine, directory: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Give a command line without a database, whose embedded server is in `directory`."""
    monkeypatch.setenv("ROWBUS_EMBEDDED_DIRECTORY", str(directory))
    monkeypatch.delenv("ROWBUS_EMBEDDED", raising=False)
    rowbus.database = ""
    (rowbus.folder / "shop.py").write_text(SALES)
    return rowbus


@pytest.fixture
def user(embedded: CommandLine) -> Running:
    """Give a process that uses the server."""
    running = embedded.start_python(USER)
    running.wait_for("^using")
    return running


def at_a_terminal(embedded: CommandLine, *arguments: str) -> str:
    """Run a command as a user does, and return what the terminal shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ROWBUS, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=embedded.folder,
        env=embedded.environment(COLUMNS="200"),
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # it ends with an error, as terminals do
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    process.wait(PATIENCE)
    return shown.decode().replace("\r\n", "\n")


# ------------------------------------------------------------------------------------------------------------ services


@every(
    "arguments",
    [
        ("run", "shop:sales"),
        ("run", "shop:sales", "--workers", "2"),
        ("run", "shop:log"),
        ("ticker",),
        ("ticker", "--once"),
    ],
    ids=" ".join,
)
def test_a_service_without_a_terminal_is_refused_the_embedded_server(
    embedded: CommandLine, directory: Path, arguments: tuple[str, ...]
) -> None:
    done = embedded(*arguments)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", REFUSAL)
    assert not directory.exists()


@pytest.mark.parametrize("way", ["--embedded", "ROWBUS_EMBEDDED"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_says_so_first_when_the_embedded_server_is_asked_for(
    embedded: CommandLine, way: str, workers: str
) -> None:
    option, environment = (["--embedded"], {}) if way == "--embedded" else ([], {way: "1"})

    serving = embedded.start("run", "shop:sales", "--workers", workers, *option, **environment)

    serving.wait_for("Endpoint Sales is receiving from", times=int(workers))
    assert serving.lines[0].startswith(NOTICE)
    assert len(serving.wait_for(NOTICE)) == 1


def test_at_a_terminal_it_runs_and_says_so_first(embedded: CommandLine) -> None:
    embedded("log", "install")

    shown = at_a_terminal(embedded, "ticker", "--once")

    assert shown == (
        f"{NOTICE}For anything else name one with --database or ROWBUS_DATABASE.\nNothing was due.\n"
    )


def test_a_database_that_is_named_needs_no_word(rowbus: CommandLine) -> None:
    rowbus("log", "install")

    by_option = rowbus("ticker", "--once", "--database", rowbus.database, ROWBUS_DATABASE="")
    by_variable = rowbus("ticker", "--once")

    assert (by_option.returncode, by_option.stderr) == (by_variable.returncode, by_variable.stderr) == (0, "")


# --------------------------------------------------------------------------------------------------------------- verbs


def test_before_anything_was_made_there_is_nothing_to_look_after(
    embedded: CommandLine, directory: Path
) -> None:
    status = embedded("embedded", "status")

    assert status.returncode == 1
    assert status.stdout == (
        f"There is no embedded server in {directory} yet; the first program that needs it makes one.\n"
    )
    assert embedded("embedded", "stop").stdout == f"No embedded server runs in {directory}.\n"
    assert embedded("embedded", "reset").stdout == f"The embedded server has no data in {directory}.\n"
    assert not directory.exists()


def test_status_tells_who_uses_it(embedded: CommandLine, user: Running) -> None:
    status = embedded("embedded", "status")
    told = json.loads(embedded("embedded", "status", "--json").stdout)

    assert status.returncode == 0
    assert f"runs as process {told['process']}.\n" in status.stdout
    assert f"It is used by process {user.pid}.\n" in status.stdout
    assert told["users"] == [user.pid]
    assert user.wait_for(r"using (.*)")[0][1] == told["connection"]


def test_psql_works_on_it_and_starts_it(embedded: CommandLine) -> None:
    made = embedded("embedded", "psql", "-c", "create table orders (id int)")
    asked = embedded("embedded", "psql", "-Atc", "select count(*) from orders")
    failed = embedded("embedded", "psql", "-c", "select 1/0", "-v", "ON_ERROR_STOP=1")

    assert (made.returncode, made.stdout, asked.stdout) == (0, "CREATE TABLE\n", "0\n")
    assert failed.returncode == 1
    assert "division by zero" in failed.stderr


def test_stop_ends_it_for_all_and_keeps_the_data(embedded: CommandLine, user: Running) -> None:
    embedded("embedded", "psql", "-c", "create table orders (id int)")
    server = json.loads(embedded("embedded", "status", "--json").stdout)["process"]

    stopped = embedded("embedded", "stop")

    assert has_ended(server)
    assert f"It was used by process {user.pid}: end them, or start it again" in stopped.stdout
    assert embedded("embedded", "status").returncode == 1
    assert embedded("embedded", "psql", "-Atc", "select count(*) from orders").stdout == "0\n"


def test_reset_asks(embedded: CommandLine) -> None:
    embedded("embedded", "psql", "-c", "create table orders (id int)")

    done = embedded("embedded", "reset")

    assert done.returncode == 2
    assert "there is no terminal to ask on; add --yes." in done.stderr
    assert embedded("embedded", "psql", "-c", "table orders").returncode == 0


def test_reset_begins_anew_also_for_those_who_use_it(
    embedded: CommandLine, user: Running, directory: Path
) -> None:
    embedded("embedded", "psql", "-c", "create table orders (id int)")

    done = embedded("embedded", "reset", "--yes")

    assert done.stdout == f"Removed the embedded server's data in {directory / 'data'}.\n"
    assert embedded("embedded", "status").returncode == 1
    assert "does not exist" in embedded("embedded", "psql", "-c", "table orders").stderr
    assert json.loads(embedded("embedded", "status", "--json").stdout)["users"] == [user.pid]


def test_reset_leaves_a_folder_that_is_not_postgresql_s(embedded: CommandLine, directory: Path) -> None:
    (directory / "data").mkdir(parents=True)
    (directory / "data" / "thesis.txt").touch()

    done = embedded("embedded", "reset", "--yes")

    assert done.returncode == 1
    assert "is no data of PostgreSQL's (it has no PG_VERSION), so it stays" in done.stderr
    assert (directory / "data" / "thesis.txt").exists()
