"""The URLs of SQL Server databases, and the driver's connection strings they become."""

from __future__ import annotations

import pytest
from mssql_python.connection_string_parser import _ConnectionStringParser

from rowbus.database.sqlserver.driver import CONNECT_TIMEOUT, PORT, parse
from rowbus.errors import ConfigurationError
from tests.fixtures.every import every


def as_the_driver_reads(url: str) -> dict[str, str]:
    """Return what the driver's own parser makes of the connection string, which refuses what it does not know."""
    return _ConnectionStringParser(validate_keywords=True)._parse(parse(url).connection_string)


def test_a_url_names_server_catalog_user_and_password() -> None:
    assert as_the_driver_reads("mssql://shop:secret@db.example:1444/Sales") == {
        "server": "tcp:db.example,1444",
        "database": "Sales",
        "uid": "shop",
        "pwd": "secret",
        "keepalive": "5",
        "keepaliveinterval": "2",
    }


def test_the_port_is_1433_and_ten_seconds_are_waited_where_nothing_is_said() -> None:
    source = parse("MSSQL://db/Sales")
    assert (source.port, source.connect_timeout) == (PORT, CONNECT_TIMEOUT) == (1433, 10)
    assert source.user is None


def test_a_password_may_hold_any_character() -> None:
    given = "p;w{d}}=% @:/?#ż"
    encoded = "p%3Bw%7Bd%7D%7D%3D%25%20%40%3A%2F%3F%23%C5%BC"
    assert as_the_driver_reads(f"mssql://u:{encoded}@db/Sales")["pwd"] == given


def test_a_catalog_may_hold_any_character() -> None:
    assert parse("mssql://db/My%20%5BSales%5D%2F1").catalog == "My [Sales]/1"


@every(
    "option, keyword, value",
    [
        ("encrypt=no", "encrypt", "no"),
        ("encrypt=false", "encrypt", "no"),
        ("Encrypt=strict", "encrypt", "strict"),
        ("trust_server_certificate=true", "trustservercertificate", "yes"),
        ("TrustServerCertificate=1", "trustservercertificate", "yes"),
        ("authentication=ActiveDirectoryDefault", "authentication", "ActiveDirectoryDefault"),
        ("application_intent=ReadOnly", "applicationintent", "ReadOnly"),
        ("packet_size=8192", "packetsize", "8192"),
    ],
)
def test_options_become_the_drivers_keywords(option: str, keyword: str, value: str) -> None:
    assert as_the_driver_reads(f"mssql://db/Sales?{option}")[keyword] == value


def test_a_silent_connection_is_probed_unless_the_url_says_how() -> None:
    assert as_the_driver_reads("mssql://db/Sales")["keepalive"] == "5"
    assert as_the_driver_reads("mssql://db/Sales")["keepaliveinterval"] == "2"
    assert as_the_driver_reads("mssql://db/Sales?keep_alive=30")["keepalive"] == "30"


def test_a_named_instance_takes_the_place_of_the_port() -> None:
    source = parse("mssql://db/Sales?instance=EXPRESS")
    assert "Server={db\\EXPRESS}" in source.connection_string
    assert source.name == "Sales on db\\EXPRESS"


def test_an_ipv6_address_is_taken() -> None:
    assert as_the_driver_reads("mssql://[::1]:1444/Sales")["server"] == "tcp:::1,1444"


@every(
    "url, said",
    [
        ("postgresql://u:secret@db/Sales", "no mssql:// URL"),
        ("mssql://u:secret@/Sales", "names no host"),
        ("mssql://u:secret@db", "names no catalog"),
        ("mssql://u:secret@db/", "names no catalog"),
        ("mssql://u:secret@db:port/Sales", "a port that is no number.*mssql://user:password@host"),
        ("mssql://u:secret@db/Sales?encrpyt=no", "unknown option 'encrpyt'"),
        ("mssql://u:secret@db/Sales?connect_timeout=soon", "connect_timeout"),
    ],
)
def test_what_cannot_be_read_is_refused_without_showing_the_password(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        parse(url)
    assert "secret" not in str(refused.value)


def test_neither_name_nor_representation_holds_the_password() -> None:
    source = parse("mssql://shop:secret@db/Sales")
    assert "secret" not in source.name + repr(source)
    assert source.name == "Sales on db:1433"
