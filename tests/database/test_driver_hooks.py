"""Parts of psycopg beyond its documentation are there, are called as we call them, and do what we need.

With ROWBUS_TEST_PSYCOPG naming a folder that holds another psycopg (`pip install --pre --target …`, or a checkout of
its development branch), the same is asked of that one.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg._preparing import Prepare, PrepareManager
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.rows import TupleRow

from rowbus.database.postgresql.driver_hooks import UNDOCUMENTED, HookedConnection, TellingCursor
from rowbus.database.postgresql.roundtrip import Roundtrips
from rowbus.database.statements import control
from tests.fixtures.every import every

pytestmark = pytest.mark.one_version

OTHER = os.environ.get("ROWBUS_TEST_PSYCOPG")
OURS: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "AsyncConnection._start_query": ((None,), {}),
    "Connection._start_query": ((None,), {}),
    "AsyncCursor._start_query": ((None, "select 1"), {}),
    "Cursor._start_query": ((None, "select 1"), {}),
    "AsyncCursor._execute_gen": ((None, "select 1", [1]), {"prepare": None, "binary": None}),
    "Cursor._execute_gen": ((None, "select 1", [1]), {"prepare": None, "binary": None}),
    "AsyncCursor._maybe_prepare_gen": ((None, None), {"prepare": None, "binary": None}),
    "AsyncCursor._get_prepared": ((None, None, None), {}),
    "AsyncCursor._execute_send": ((None, None), {"binary": None}),
    "AsyncCursor._send_query_prepared": ((None, b"name", None), {"binary": None}),
    "AsyncCursor._check_results": ((None, []), {}),
    "AsyncCursor._set_results": ((None, []), {}),
    "PrepareManager.maybe_add_to_cache": ((None, None, Prepare.NO, b"name"), {}),
    "PrepareManager.validate": ((None, None, Prepare.NO, b"name", []), {}),
    "AsyncConnection._deallocate": ((None, b"name"), {}),
    "AsyncConnection._exec_command": ((None, b"command"), {}),
    "Connection._exec_command": ((None, b"command"), {}),
    "AsyncConnection.wait": ((None, iter(())), {}),
    "Connection.wait": ((None, iter(())), {}),
    "Transformer.dump_sequence": ((None, [1], [PyFormat.TEXT]), {}),
    "Transformer.set_pgresult": ((None, None), {}),
    "Transformer.load_rows": ((None, 0, 1, tuple), {}),
    "errors.error_from_result": ((None,), {}),
}
"""Arguments of each of our calls: `None` stands for the object itself, or for a result."""


def found(name: str) -> Callable[..., Any]:
    """Return what a name of the list stands for; fails, saying what breaks without it."""
    owner, member = name.split(".")
    thing = {
        "AsyncConnection": psycopg.AsyncConnection,
        "Connection": psycopg.Connection,
        "AsyncCursor": psycopg.AsyncCursor,
        "Cursor": psycopg.Cursor,
        "PrepareManager": PrepareManager,
        "Transformer": Transformer,
        "errors": psycopg.errors,
    }[owner]
    assert hasattr(thing, member), broken(name, "is gone")
    return getattr(thing, member)  # type: ignore[no-any-return]


def broken(name: str, how: str) -> str:
    return f"psycopg {psycopg.__version__}: {name} {how}. Then {UNDOCUMENTED[name]}."


@every("name", OURS)
def test_it_is_there_and_takes_what_we_give_it(name: str) -> None:
    signature = inspect.signature(found(name))
    given, named = OURS[name]
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        pytest.fail(broken(name, f"is now {signature}: {error}"))


def test_each_of_the_list_is_asked_for() -> None:
    members = {
        f"{owner}.{name}" for owner in ("AsyncConnection", "Connection") for name in ("lock", "_pipeline")
    }
    members |= {"AsyncConnection._prepared", "AsyncConnection._adapters", "Connection._adapters"}
    members |= {"AsyncConnection._notice_handlers", "AsyncConnection._notify_handlers"}
    assert OURS.keys() | members == UNDOCUMENTED.keys()


@every("name", ["_start_query", "_deallocate", "_exec_command"])
def test_what_runs_on_the_wire_is_a_generator(name: str) -> None:
    name = f"AsyncConnection.{name}"
    assert inspect.isgeneratorfunction(found(name)), broken(name, "is no generator any more")


# ------------------------------------------------------------------------------------------------------ what they do


class Watched(HookedConnection):
    """A connection that notes when its hooks are called."""

    heard: list[str]

    def before_query(self) -> PQGen[None]:
        self.heard.append("query" if self.lock.locked() else "query without the lock")
        yield from ()

    def note_deallocate_all(self) -> None:
        self.heard.append("deallocate all")


async def watched(dsn: str) -> Watched:
    connection = await Watched.connect(dsn, autocommit=True)
    connection.heard = []
    return connection


async def by_cursor(connection: Watched) -> None:
    await connection.execute("select 1")


async def by_raw_cursor(connection: Watched) -> None:
    await psycopg.AsyncRawCursor[TupleRow](connection).execute("select $1::int", [1])


async def by_client_cursor(connection: Watched) -> None:
    await psycopg.AsyncClientCursor[TupleRow](connection).execute("select %s", [1])


async def by_many(connection: Watched) -> None:
    await connection.cursor().executemany("select %s::int", [[1], [2]])


async def by_copy(connection: Watched) -> None:
    async with connection.cursor().copy("copy (select 1) to stdout") as copy:
        async for _ in copy:
            pass


async def by_stream(connection: Watched) -> None:
    async for _ in connection.cursor().stream("select 1"):
        pass


@pytest.mark.parametrize(
    "use",
    [by_cursor, by_raw_cursor, by_client_cursor, by_many, by_copy, by_stream],
    ids=lambda use: use.__name__,
)
async def test_a_statement_of_any_cursor_starts_with_the_hook(database: str, use: Callable[..., Any]) -> None:
    async with await watched(database) as connection:
        await use(connection)

    name = "AsyncConnection._start_query"
    assert connection.heard[:1] == ["query"], broken(
        name, f"is not called first, with the lock ({use.__name__})"
    )


class PreparedConnection(HookedConnection):
    """A connection that runs commands before each statement."""

    before: tuple[bytes, ...] = ()

    def before_query(self) -> PQGen[None]:
        yield from self.run_first([control(text, "It failed") for text in self.before])


async def prepared(dsn: str, *before: bytes) -> PreparedConnection:
    connection = await PreparedConnection.connect(dsn, autocommit=True)
    connection.before, connection.roundtrips = before, Roundtrips(connection)
    connection.cursor_factory = TellingCursor
    return connection


@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize("values", [None, ["statement_timeout"]])
@pytest.mark.parametrize("before", [(), (b"select 1", b"set statement_timeout = 1")])
async def test_commands_run_before_the_statement_that_waits_for_them(
    database: str, before: tuple[bytes, ...], values: list[str] | None, *, in_pipeline: bool
) -> None:
    query = "show statement_timeout" if values is None else "select current_setting(%s)"
    async with await prepared(database, *before, b"set statement_timeout = 4711") as connection:
        async with connection.pipeline() if in_pipeline else nullcontext():
            cursor = await connection.execute(query, values)
        assert await cursor.fetchone() == ("4711ms",), broken(
            "AsyncConnection._exec_command", "comes too late"
        )


@pytest.mark.parametrize("values", [None, [3]])
async def test_commands_end_with_the_first_that_fails(database: str, values: list[int] | None) -> None:
    async with await prepared(database, b"select 1", b"select nothing", b"select 2") as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            await connection.execute("select 3" if values is None else "select %s", values)


@pytest.mark.parametrize("statement", ["drop table if exists nothing", "rollback"])
async def test_the_driver_says_when_it_deallocates_everything(database: str, statement: str) -> None:
    async with await watched(database) as connection:
        await connection.execute("select 1", prepare=True)
        await connection.execute(statement.encode())
        cursor = await connection.execute("select count(*) from pg_prepared_statements")
        left = await cursor.fetchone()

    if left == (0,):
        assert "deallocate all" in connection.heard, broken("AsyncConnection._deallocate", "is not called")


async def test_a_connection_has_a_lock_that_keeps_its_statements_apart(database: str) -> None:
    async with await watched(database) as connection, connection.lock:
        assert connection.lock.locked(), broken("AsyncConnection.lock", "is no lock any more")


@pytest.mark.skipif(
    OTHER is None,
    reason="no other psycopg in ROWBUS_TEST_PSYCOPG, and PyPI has no pre-release of one newer than 3.3.9",
)
def test_the_same_holds_for_another_psycopg() -> None:
    assert OTHER is not None
    environment = os.environ | {"PYTHONPATH": OTHER, "PSYCOPG_IMPL": "python"}
    environment.pop("ROWBUS_TEST_PSYCOPG")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", str(Path(__file__))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
