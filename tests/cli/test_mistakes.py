"""Mistakes on the command line: what a user reads, and what to do next."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowbus.database.backends import backend_class
from rowbus.database.embedded import Cluster, find_binaries
from rowbus.endpoint.endpoint import Endpoint
from rowbus.errors import ConfigurationError
from tests.fixtures.command_line import Ask, CommandLine, as_role
from tests.fixtures.database import joined, run_directory

APP = """
import rowbus

class Sales(rowbus.Endpoint): pass

empty = rowbus.Endpoint("Sales")
log = rowbus.Log("postgresql://", "orders")
"""


@pytest.fixture
def app(rowbus: CommandLine) -> CommandLine:
    (rowbus.folder / "app.py").write_text(APP)
    return rowbus


def refused(rowbus: CommandLine, *arguments: str, **environment: str) -> str:
    done = rowbus(*arguments, **environment)
    assert done.returncode == 2, done.stderr
    return " ".join(done.stderr.replace("│", " ").split())


def test_a_file_in_place_of_a_module(app: CommandLine) -> None:
    assert refused(app, "run", "app.py:empty") == (
        "rowbus: 'app.py:empty' names a file; name the module: app:empty."
    )
    assert refused(app, "run", "./shop/app.py:empty").endswith("name the module: shop.app:empty.")


def test_a_class_in_place_of_an_endpoint(app: CommandLine) -> None:
    assert refused(app, "run", "app:Sales") == (
        "rowbus: app:Sales is a class, and neither a rowbus.Endpoint or a rowbus.Log nor a function that returns one; "
        "there is empty, log."
    )


def test_an_endpoint_without_handlers(app: CommandLine) -> None:
    assert refused(app, "run", "app:empty") == (
        'rowbus: Endpoint Sales has no handlers, so each of its messages would end in the queue "public"."error". '
        "Import the modules with its @handler functions before it runs."
    )


def test_a_misspelt_option(app: CommandLine) -> None:
    meant = {
        "--worker": "workers",
        "--wrkers": "workers",
        "--concurency": "concurrency",
        "--relaod": "reload",
    }
    for misspelt, option in meant.items():
        assert f"No such option: {misspelt} (Possible options: --{option})" in refused(
            app, "run", "app:empty", misspelt
        )


def test_a_log_without_consumers(app: CommandLine) -> None:
    assert refused(app, "run", "app:log") == (
        "rowbus: Log orders has no consumers, so nothing would be read. Import the modules with its @log.consumer "
        "functions before it runs."
    )


def test_a_url_of_another_database(rowbus: CommandLine) -> None:
    for scheme in ("mysql", "mongodb", "sqlite"):
        assert refused(rowbus, "queue", "list", "--database", f"{scheme}://shop@db/shop") == (
            f"rowbus: {scheme}:// names no database that Rowbus works with: PostgreSQL "
            "(postgresql://user@host/name) or SQL Server (mssql://user@host/name)."
        )


def test_what_sql_server_has_not(rowbus: CommandLine) -> None:
    """It is said before anything connects, and of tables that only PostgreSQL has where they are asked for."""
    for command in ("running list", "running cancel x", "ticker", "log list"):
        done = rowbus(*command.split(), ROWBUS_DATABASE="mssql://user@127.0.0.1:9/shop")
        assert (done.returncode, "PostgreSQL only" in done.stderr) == (2, True), (command, done.stderr)
    for package in ("operations.discarded", "pauses"):
        with pytest.raises(ConfigurationError, match="PostgreSQL only"):
            backend_class(f"rowbus.transport.{package}", "sqlserver", "Table")
    with pytest.raises(ConfigurationError, match="Lanes need PostgreSQL"):
        asyncio.run(Endpoint("Sales", database="mssql://user@127.0.0.1:9/shop").change_lanes())


def test_retry_asks_nothing(rowbus: CommandLine) -> None:
    assert "retry asks no question, so there is none to answer: leave -y out." in refused(
        rowbus, "errors", "retry", "-y", "--all"
    )


def test_a_url_of_sqlalchemy(rowbus: CommandLine) -> None:
    assert refused(rowbus, "queue", "list", "--database", "postgresql+psycopg://shop@db/shop") == (
        "rowbus: postgresql+psycopg:// begins a URL of SQLAlchemy's. Rowbus brings its own driver: write postgresql:// "
        "and the rest as it is."
    )


@pytest.fixture
def with_passwords() -> Iterator[str]:
    """Give the connection string of a server of this test's own, where probe needs a password, without it."""
    with run_directory(Path(tempfile.gettempdir())) as directory:
        rules = directory / "hba.conf"
        rules.write_text("local all probe scram-sha-256\nlocal all all trust\n")
        settings = {"hba_file": str(rules), "fsync": "off"}
        with joined(Cluster(find_binaries(), directory / "server", settings=settings)) as dsn:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("create role probe login password 'right'")
            yield psycopg.conninfo.make_conninfo(dsn, user="probe")


@pytest.mark.one_version
def test_a_wrong_password(rowbus: CommandLine, with_passwords: str) -> None:
    wrong = psycopg.conninfo.make_conninfo(with_passwords, password="wrong")

    done = rowbus("queue", "list", ROWBUS_DATABASE=wrong)

    assert done.returncode == 1
    assert done.stderr.startswith(
        "rowbus: The database refused the user or the password (see the connection string, or PGPASSFILE): "
    )
    assert done.stderr.count("password authentication failed for user") == 1
    assert done.stderr.count("\n") == 1
    assert "wrong" not in done.stderr


@pytest.mark.one_version
def test_no_password(rowbus: CommandLine, with_passwords: str) -> None:
    done = rowbus("queue", "list", ROWBUS_DATABASE=with_passwords, PGPASSFILE=str(rowbus.folder / "none"))

    assert done.returncode == 1
    assert done.stderr.startswith("rowbus: The database refused the user or the password (")
    assert "no password supplied" in done.stderr


@pytest.mark.one_version
def test_a_session_that_may_only_read(rowbus: CommandLine) -> None:
    rowbus("queue", "create", "Sales")

    done = rowbus("queue", "purge", "Sales", "--yes", PGOPTIONS="-c default_transaction_read_only=on")

    assert done.returncode == 1
    assert [line[:8] for line in done.stderr.splitlines()] == [
        "rowbus: ",
        "rowbus: ",
    ]  # and none of the driver's


def test_capture_into_a_missing_log(rowbus: CommandLine, ask: Ask) -> None:
    ask("create table orders (id int primary key)")
    rowbus("log", "install")

    done = rowbus("log", "capture", "orders", "--log", "nothing")

    assert done.returncode == 1
    assert done.stderr == (
        "rowbus: Failed to capture orders into log \"nothing\": there is no log 'nothing'; create it with `rowbus log "
        "create`.\n"
    )


def test_log_install_without_createrole(rowbus: CommandLine, database: str, role: str, ask: Ask) -> None:
    done = rowbus("log", "install", ROWBUS_DATABASE=as_role(database, role))

    (name,) = ask("select current_database()")[0]
    (are_there,) = ask("select to_regrole('pgq_admin') is not null")[
        0
    ]  # another test's log, on the same server
    refusal = (
        f"permission denied for database {name}"
        if are_there
        else (
            f"role {role} may not create roles. Have an administrator of the server run, once: create role pgq_reader; "
            "create role pgq_writer; create role pgq_admin in role pgq_reader, pgq_writer; then install again"
        )
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"rowbus: Failed to install the event log (structure/010_roles.sql): {refusal}. A role that may create schemas "
        "in this database, and roles if they are missing, can install it: rowbus log install --database …\n"
    )


def test_the_embedded_server_s_folder_is_a_file(rowbus: CommandLine) -> None:
    file = rowbus.folder / "file"
    file.write_text("")

    done = rowbus("queue", "list", ROWBUS_DATABASE="", ROWBUS_EMBEDDED_DIRECTORY=str(file))

    assert done.returncode == 1
    assert done.stderr == (
        f"rowbus: {file} is a file, not a folder. Choose another one with ROWBUS_EMBEDDED_DIRECTORY.\n"
    )
