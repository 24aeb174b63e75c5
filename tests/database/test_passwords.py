"""Passwords: one that is not percent-encoded is refused before any look-up, and no error shows any of it."""

from __future__ import annotations

import socket
import traceback
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rowbus
from rowbus.database import backends
from rowbus.database.location import holds_password
from rowbus.errors import ConfigurationError
from rowbus.messages.sqlserver_address import SqlServerAddresses
from tests.fixtures.every import every

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = ("Qz", "Xk", "Wv")
SECRETS = [
    "Qz@Xk/Wv",
    "Qz@Xk",
    "Qz/Xk@Wv",
    "Qz/Xk@",
    "12/Xk",
    "12/Xk?Wv",
    "@",
    "/@",
    "Qz@Xk?Wv/Qz",
    "1#2@/Wv",
]
PLACES = ["host/db", "host:5432/db", "db.example/Shop?connect_timeout=5"]


@pytest.fixture(autouse=True)
def no_look_ups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail whatever asks the DNS."""

    def refuse(*_arguments: object) -> None:
        pytest.fail("a name was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return iter([None])


def open_as_users_do(url: str) -> None:
    backends.addresses_of(url)
    backends.open_database(url)


@every("scheme", ["postgresql", "postgres", "mssql"])
@every("secret", SECRETS)
@every("place", PLACES)
def test_an_unescaped_password_is_refused_and_not_shown(scheme: str, secret: str, place: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_as_users_do(f"{scheme}://u:{secret}@{place}")

    text = str(refused.value)
    assert "%40" in text
    assert "PGPASSFILE" in text
    assert not [part for part in (*PARTS, "db.example", "5432") if part in text]
    assert refused.value.__cause__ is None


@given(st.text("aZ9@/:?#%&=", min_size=1, max_size=12), st.sampled_from(["postgresql", "mssql"]))
def test_no_part_of_a_password_is_taken_for_a_host_or_a_name(password: str, scheme: str) -> None:
    url = f"{scheme}://user:Q{password}Q@host.example/shop"
    try:
        name = backends.open_database(url).name
    except ConfigurationError as error:
        assert f"Q{password}" not in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert name.removesuffix(":1433") == "shop on host.example"


@every(
    "url",
    [
        "postgresql://host/db?user=me@server&password=p@ss",
        "postgresql://u:p%40ss%2Fw@host/my%40db",
        "postgresql://u:p:w@host/db",
        "postgresql://u:p%40ss@[::1]:5432,two,three:1/db",
        "postgresql://u:p?w@host/db",
        "postgresql:///db?host=/tmp&user=u@realm",
        "host=h dbname=d user=u@server password=p@ss/w",
        "mssql://u:p%40ss%2Fw@host/db",
        "mssql://host/my%40db",
    ],
)
def test_what_cannot_be_misread_is_taken(url: str) -> None:
    assert "p@ss" not in backends.open_database(url).name


@every(
    "given",
    [
        "postgresql+psycopg://u:geheim@host/db",
        "postgresql+psycopg://u:geheim@host/db?sslmode=require",
        "mssql+pyodbc://u:geheim@host/db",
        "host=h password=ge heim",
        "host=h password='geheim",
        "postgresql://u:geheim%zz@host/db",
        "postgresql://u:geheim%99@host/db",
        "postgresql://u:1/x?geheim=y",
        "postgresql://host:geheim/db",
        "postgresql://u@one:1,two:geheim/db",
        "mssql://host:geheim/db",
        "Server=h;PWD=geheim",
    ],
)
def test_what_cannot_be_read_is_not_shown(given: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_as_users_do(given)

    assert "heim" not in "".join(traceback.format_exception(refused.value)).split("ConfigurationError:")[-1]
    assert refused.value.__suppress_context__


@every(
    "given, answer",
    [
        ("postgresql://u:secret@host/db", True),
        ("mssql://u:secret@host/db", True),
        ("postgresql://host/db?user=u&password=secret", True),
        ("host=h password=secret", True),
        ("host=h password = 'secret'", True),
        ("postgresql://u@host/db", False),
        ("postgresql://u@host:5432/db", False),
        ("postgresql://host:5432/db", False),
        ("postgresql://[::1]:5432/db", False),
        ("mssql://host:1433/db", False),
        ("host=h passfile=/home/me/.pgpass", False),
        ("service=shop", False),
        ("", False),
    ],
)
def test_a_password_on_a_command_line_is_noticed(given: str, answer: bool) -> None:  # noqa: FBT001 - a table
    assert holds_password(given) is answer


# ------------------------------------------------------------------------------------------------- names with a NUL


@every("addresses", [backends.addresses_of(None), SqlServerAddresses("dbo", "Shop")])
def test_no_queue_schema_or_endpoint_has_a_nul_in_its_name(addresses: SqlServerAddresses) -> None:
    for refused in (
        lambda: addresses.from_user("Sal\0es"),
        lambda: addresses._replace(schema="pub\0lic").from_user("Sales"),
        lambda: addresses.for_endpoint("Sal\0es"),
        lambda: addresses.validate_endpoint_name("Sal\0es"),
    ):
        with pytest.raises(ConfigurationError, match="NUL"):
            refused()


def test_no_log_or_consumer_has_a_nul_in_its_name() -> None:
    log = rowbus.Log("postgresql://nowhere.invalid/db", "orders")
    for refused in (
        lambda: rowbus.Log("postgresql://nowhere.invalid/db", "ord\0ers"),
        lambda: rowbus.AsyncLog("postgresql://nowhere.invalid/db", "ord\0ers"),
        lambda: log.consumer("bil\0ling"),
        lambda: log.consumer("billing", subconsumer="on\0e"),
    ):
        with pytest.raises(ConfigurationError, match="NUL"):
            refused()
