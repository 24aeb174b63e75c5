"""Connections find out that the machine at their other end, or the network, is gone: both ends are told to ask."""

from __future__ import annotations

import os
import random
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from rowbus.database.embedded import Cluster, find_binaries
from rowbus.database.postgresql.database import Database
from tests.fixtures.database import joined, run_directory

CLIENT = {
    "keepalives_idle": socket.TCP_KEEPIDLE,
    "keepalives_interval": socket.TCP_KEEPINTVL,
    "keepalives_count": socket.TCP_KEEPCNT,
    "tcp_user_timeout": 18,  # Linux's TCP_USER_TIMEOUT
}
SERVER = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's socket options")


@pytest.fixture(scope="module")
def by_network() -> Iterator[str]:
    """Give the DSN of a server of this module's own, by TCP: an address of the loopback that no other server has."""
    address = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
    password = secrets.token_hex(16)
    with run_directory(Path(tempfile.gettempdir())) as directory:
        rules = directory / "hba.conf"
        rules.write_text("local all all trust\nhost all probe 127.0.0.0/8 scram-sha-256\n")
        settings = {"listen_addresses": address, "hba_file": str(rules), "fsync": "off"}
        with joined(Cluster(find_binaries(), directory / "server", settings=settings)) as dsn:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(f"create role probe login password '{password}'".encode())
            yield make_conninfo(dsn, host=address, user="probe", password=password)


def of_client(connection: psycopg.Connection) -> list[int]:
    with closing(socket.socket(fileno=os.dup(connection.pgconn.socket))) as copy:
        return [copy.getsockopt(socket.IPPROTO_TCP, option) for option in CLIENT.values()]


def of_server(connection: psycopg.Connection) -> list[str]:
    return [connection.execute(f"show {name}".encode()).fetchall()[0][0] for name in SERVER]


def test_both_ends_of_a_connection_find_out_that_the_other_is_gone(by_network: str) -> None:
    with Database(by_network).session() as session:
        assert of_client(session.connection) == [5, 2, 3, 10_000]
        assert of_server(session.connection) == ["5", "2", "3", "10000"]


async def test_asynchronous_connections_do_the_same(by_network: str) -> None:
    for connect in (Database(by_network).connect, Database(by_network).connect_receiver):
        session = await connect()
        try:
            assert of_client(session.connection) == [5, 2, 3, 10_000]  # type: ignore[arg-type]
            cursor = await session.connection.execute("show tcp_user_timeout")
            assert await cursor.fetchone() == ("10000",)
        finally:
            await session.close()


def test_what_the_connection_string_says_stays(by_network: str) -> None:
    given = {
        "keepalives_idle": 50,
        "keepalives_interval": 7,
        "keepalives_count": 9,
        "tcp_user_timeout": 60000,
    }
    with Database(make_conninfo(by_network, **given)).session() as session:
        assert of_client(session.connection) == [50, 7, 9, 60000]


def test_what_the_servers_administrator_has_set_stays(by_network: str) -> None:
    options = "-c tcp_keepalives_idle=600 -c tcp_keepalives_interval=11 -c tcp_user_timeout=7000"
    with Database(make_conninfo(by_network, options=options)).session() as session:
        assert of_server(session.connection)[:2] == ["600", "11"]
        assert of_server(session.connection)[3] == "7000"


def test_a_connection_service_keeps_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "keepalives_idle=5" in Database("dbname=a").conninfo
    assert "keepalives" not in Database("service=shop").conninfo
    monkeypatch.setenv("PGSERVICE", "shop")
    assert "keepalives" not in Database("dbname=a").conninfo
