"""Microsoft's driver itself, against a server that only fails, hangs or says yes: what we rely on, and what people see.

Needs the libraries the driver needs: on Debian, `apt-get install libltdl7 libkrb5-3 libgssapi-krb5-2`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pymssql
import pytest

from rowbus.database.sqlserver import driver
from rowbus.database.sqlserver.backend import Database
from rowbus.database.sqlserver.faults import read, translate, translate_connecting
from rowbus.errors import (
    AlreadyThereError,
    ConfigurationError,
    ConnectionLostError,
    PermissionDeniedError,
    QueueNotFoundError,
    StorageError,
    TransactionConflictError,
)
from tests.database.sqlserver.recording import statement
from tests.database.sqlserver.wire import Refusal, Server, serving
from tests.fixtures.backends import reached
from tests.fixtures.every import every

LONG = 10.0  # seconds that nothing here takes
LOGIN_FAILED = Refusal(18456, "Login failed for user 'shop'.")


def url(server: Server, options: str = "encrypt=no") -> str:
    return f"mssql://shop:secret@127.0.0.1:{server.port}/Sales?connect_timeout=5&{options}"


@pytest.fixture(scope="module", autouse=True)
def _library() -> None:
    """Skip where the driver finds no library to load."""
    with serving(LOGIN_FAILED) as server:
        try:
            with Database(url(server)).session():
                pass
        except ConfigurationError as error:
            pytest.skip(str(error))
        except ConnectionLostError:
            return


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


async def test_a_login_that_fails_says_for_whom_and_nothing_secret() -> None:
    with serving(LOGIN_FAILED) as server, pytest.raises(ConnectionLostError) as raised:
        await Database(url(server)).connect()
    assert "refused user 'shop', or the password" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.transient is False


async def test_a_catalog_that_is_missing_is_named() -> None:
    refusal = Refusal(4060, 'Cannot open database "Sales" requested by the login. The login failed.')
    with serving(refusal) as server, pytest.raises(ConnectionLostError, match="no catalog 'Sales'"):
        await Database(url(server)).connect()


@every("options", ["", "encrypt=yes"])
async def test_encryption_that_the_server_refuses_is_named_with_the_option(
    options: str, server: Server
) -> None:
    with pytest.raises(ConnectionLostError, match=r"\?encrypt=no"):
        await Database(url(server, options)).connect()


def test_the_suite_goes_without_encryption_where_there_is_none_and_nobody_asked_for_it(
    server: Server,
) -> None:
    assert reached(url(server, "")) == url(server, "&encrypt=no")
    with pytest.raises(ConnectionLostError):
        reached(url(server, "encrypt=yes"))


async def test_a_server_that_is_not_there_is_named() -> None:
    with serving() as server:
        pass
    with pytest.raises(
        ConnectionLostError, match=f"no SQL Server answers at 127.0.0.1:{server.port}"
    ) as raised:
        await Database(url(server).replace("connect_timeout=5", "connect_timeout=1")).connect()
    assert raised.value.transient is True


@every(
    "number, text, kind, state",
    [
        (208, "Invalid object name 'Sales'.", QueueNotFoundError, None),
        (208, 'relation "sales" does not exist', QueueNotFoundError, None),
        (207, "Invalid column name 'Recoverable'.", StorageError, "42S22"),
        (515, "Cannot insert the value NULL into column 'Recoverable'", StorageError, "23000"),
        (1205, "Transaction (Process ID 52) was deadlocked", TransactionConflictError, "40001"),
        (
            3960,
            "Snapshot isolation transaction aborted due to update conflict",
            TransactionConflictError,
            "42000",
        ),
        (2714, "There is already an object named 'Sales' in the database.", AlreadyThereError, "42S01"),
        (1913, "The operation failed because an index exists", AlreadyThereError, "42S11"),
        (2627, "Violation of PRIMARY KEY constraint", AlreadyThereError, "23000"),
        (229, "The INSERT permission was denied on the object 'Sales'", PermissionDeniedError, "42000"),
        (262, "CREATE TABLE permission denied in database 'Shop'.", PermissionDeniedError, "42000"),
        (3930, "The current transaction cannot be committed", StorageError, "42000"),
    ],
)
async def test_errors_of_the_server_become_ours(
    number: int, text: str, kind: type[Exception], state: str | None, server: Server
) -> None:
    session = await Database(url(server)).connect()
    failing = statement(f"error {number} {text};")
    failing = failing._replace(query=failing.query._replace(queue="Sales"))
    with pytest.raises(kind) as raised:
        await session.run(failing)
    assert type(raised.value) is kind
    assert getattr(raised.value, "sqlstate", None) == state
    assert not session.closed
    await session.close()


async def test_a_connection_that_breaks_leaves_the_session_closed(server: Server) -> None:
    session = await Database(url(server)).connect()
    with pytest.raises(ConnectionLostError):
        await session.run(statement("drop"))
    assert session.closed
    await session.close()


async def test_a_parameter_is_of_one_type_whatever_its_length_and_empty_is_not_null(server: Server) -> None:
    session = await Database(url(server)).connect()
    for text, body in (("", b""), ("żółw", b"x"), ("a" * 5000, b"y" * 9000)):
        await session.run(statement("insert ?, ?", text=text, body=body))
    calls = [request for request in server.requests if "insert @P1" in request]
    assert len(calls) == 3
    assert all("@P1 nvarchar(max),@P2 varbinary(max)" in call for call in calls)
    await session.close()


async def test_the_event_loop_goes_on_and_a_cancelled_call_is_over_at_once(server: Server) -> None:
    session = await Database(url(server)).connect()
    running = asyncio.create_task(session.run(statement("hang")))
    assert await asyncio.to_thread(server.hanging.wait, LONG)
    running.cancel()
    await asyncio.wait_for(asyncio.wait([running]), LONG)
    assert running.cancelled()
    await asyncio.wait_for(session.close(), 2)
    assert session.closed


def test_a_process_ends_although_a_call_hangs(server: Server) -> None:
    """The thread that waits for the server is no reason to wait for it."""
    script = (
        "import asyncio, sys\n"
        "from rowbus.database.sqlserver.backend import Database\n"
        "from tests.database.sqlserver.recording import statement\n"
        "async def main():\n"
        "    session = await Database(sys.argv[1]).connect()\n"
        "    task = asyncio.create_task(session.run(statement('hang')))\n"
        "    await asyncio.sleep(0.05)\n"
        "    sys.exit(3)\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, url(server)], timeout=LONG, check=False)
    assert ended.returncode == 3


def test_our_connections_are_not_kept_in_the_drivers_pool(server: Server) -> None:
    """A connection put back in a transaction would keep its locks."""
    with Database(url(server)).session():
        pass
    assert not driver.load_driver().PoolingManager.is_enabled()


@every(
    "number, text, kind",
    [
        (208, "Invalid object name 'Sales'.", QueueNotFoundError),
        (1205, "Transaction (Process ID 52) was deadlocked", TransactionConflictError),
        (2714, "There is already an object named 'Sales'", AlreadyThereError),
        (229, "The INSERT permission was denied", PermissionDeniedError),
    ],
)
def test_pymssql_errors_are_understood_as_well(
    number: int, text: str, kind: type[Exception], server: Server
) -> None:
    with pymssql.connect(
        server="127.0.0.1", port=str(server.port), user="u", password="p", tds_version="7.4"
    ) as ours:
        query = statement("send").query._replace(queue="Sales")
        with pytest.raises(pymssql.Error) as raised:
            ours.cursor().execute(f"error {number} {text};")
    assert isinstance(translate(raised.value, query), kind)


def test_a_pymssql_login_that_fails_is_understood_as_well() -> None:
    source = Database("mssql://shop:secret@127.0.0.1/Sales").source
    with serving(LOGIN_FAILED) as server, pytest.raises(pymssql.Error) as raised:
        pymssql.connect(server="127.0.0.1", port=str(server.port), user="shop", password="secret")
    assert read(raised.value).number in {18456, 20002}
    assert "refused user 'shop'" in str(translate_connecting(raised.value, source))
