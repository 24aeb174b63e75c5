"""Microsoft's driver for SQL Server: the URL of a database, and the one place that imports the driver and connects.

A URL is `mssql://user:password@host:1433/catalog?encrypt=yes`; everything in it may be percent-encoded. Without a user
the driver's own ways of logging in remain, by `?authentication=…` or `?trusted_connection=yes`; the driver's names for
these and other options are its ODBC keywords. Sessions use no more of a connection than the protocols below, which
pymssql, pyodbc and the tests' stand-in fulfil as well.

Invariants: the password leaves a `DataSource` only in `connection_string`, and is in no text that is shown or logged;
`connect` is looked up in this module at each use, so that tests can put a stand-in in its place; what it returns is in
autocommit mode, because transactions are begun and ended by statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from rowbus.database.location import refuse_unescaped, unescaped
from rowbus.errors import ConfigurationError
from rowbus.errors.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


SCHEME = "mssql"
PORT = 1433
CONNECT_TIMEOUT = 10  # seconds
NOTATION = "mssql://user:password@host:1433/catalog"

_KEYWORDS = {
    "encrypt": "Encrypt",
    "trust_server_certificate": "TrustServerCertificate",
    "host_name_in_certificate": "HostnameInCertificate",
    "server_certificate": "ServerCertificate",
    "authentication": "Authentication",
    "trusted_connection": "Trusted_Connection",
    "server_spn": "ServerSPN",
    "multi_subnet_failover": "MultiSubnetFailover",
    "application_intent": "ApplicationIntent",
    "ip_address_preference": "IpAddressPreference",
    "keep_alive": "KeepAlive",
    "keep_alive_interval": "KeepAliveInterval",
    "connect_retry_count": "ConnectRetryCount",
    "connect_retry_interval": "ConnectRetryInterval",
    "packet_size": "PacketSize",
}
LIVENESS = {"KeepAlive": "5", "KeepAliveInterval": "2"}
"""Seconds until a silent connection is probed, and between two probes, unless the URL says otherwise. The driver has no
word for how long what was sent may stay unanswered: that is the operating system's."""

_OURS = ("connect_timeout", "instance")
_TRUTHS = {"true": "yes", "on": "yes", "1": "yes", "false": "no", "off": "no", "0": "no"}
_SWITCHES = frozenset({"encrypt", "trust_server_certificate", "trusted_connection", "multi_subnet_failover"})

MODULE = "mssql_python"


# The URL.


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """A server, a catalog on it, and how to log in; what `driver.connect` takes."""

    host: str
    catalog: str
    port: int = PORT
    instance: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    connect_timeout: int = CONNECT_TIMEOUT
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """The driver's keywords with their values."""

    @property
    def name(self) -> str:
        """Where this is, for people: catalog and server, no secret."""
        return f"{self.catalog} on {self.server}"

    @property
    def server(self) -> str:
        """The server as people name it."""
        return f"{self.host}\\{self.instance}" if self.instance else f"{self.host}:{self.port}"

    @property
    def connection_string(self) -> str:
        """The arguments of mssql-python. Holds the password: never show it."""
        server = self.server if self.instance else f"tcp:{self.host},{self.port}"
        facts = {"Server": server, "Database": self.catalog, "UID": self.user, "PWD": self.password}
        given = {keyword: value for keyword, value in facts.items() if value}
        words = {**given, **LIVENESS, **self.options}
        return ";".join(f"{keyword}={_braced(value)}" for keyword, value in words.items())


def parse(dsn: str) -> DataSource:
    """Read a URL; raises ConfigurationError, whose text holds nothing of it that may be secret."""
    refuse_unescaped(dsn, in_options=False)
    try:
        url = urlsplit(dsn.strip())
        host, port = url.hostname, url.port or PORT
    except ValueError:
        raise _unreadable("its port or host cannot be read") from None
    if url.scheme.lower() != SCHEME or not host:
        raise _unreadable("it names no host" if url.scheme.lower() == SCHEME else "it is no mssql:// URL")
    if url.fragment:
        raise unescaped()
    catalog = unquote(url.path.removeprefix("/"))
    if not catalog:
        raise _unreadable("it names no catalog, which is SQL Server's word for a database")
    given = _options(url)
    return DataSource(
        host=host,
        port=port,
        instance=given.pop("instance", None),
        catalog=catalog,
        user=unquote(url.username) if url.username else None,
        password=unquote(url.password) if url.password else None,
        connect_timeout=_seconds(given.pop("connect_timeout", str(CONNECT_TIMEOUT))),
        options={_KEYWORDS[name]: value for name, value in given.items()},
    )


def _options(url: SplitResult) -> dict[str, str]:
    given = {_plain(name): value for name, value in parse_qsl(url.query, keep_blank_values=True)}
    known = {_plain(name): name for name in (*_KEYWORDS, *_OURS)}
    if unknown := sorted(given.keys() - known.keys()):
        raise _unreadable(f"it has an unknown option {unknown[0]!r}; known are {', '.join(known.values())}")
    return {known[name]: _switch(known[name], value) for name, value in given.items() if value}


def _plain(name: str) -> str:
    """Return an option's name without what its spellings differ in: `TrustServerCertificate` is understood."""
    return name.replace("_", "").replace(" ", "").lower()


def _switch(name: str, value: str) -> str:
    return _TRUTHS.get(value.lower(), value) if name in _SWITCHES else value


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise _unreadable("its connect_timeout is no number of seconds above zero")
    return int(text)


def _braced(value: str) -> str:
    """Quote a value as ODBC connection strings do."""
    return "{" + value.replace("}", "}}") + "}"


def _unreadable(reason: str) -> ConfigurationError:
    return ConfigurationError(f"The database is not given as a SQL Server URL, such as {NOTATION}: {reason}.")


# The driver.


class DriverCursor(Protocol):
    """The part of the DB-API's cursor that sessions use."""

    description: Any  # Sequence[tuple[str, ...]] | None
    rowcount: int

    def execute(self, operation: str, /, *parameters: Any) -> object:  # noqa: ANN401 - drivers take what they like
        """Run one batch; its marks are the driver's, ours come as one sequence."""
        raise NotImplementedError

    def fetchall(self) -> Sequence[Sequence[Any]]:
        """Return the rows that are left of the current answer."""
        raise NotImplementedError

    def nextset(self) -> bool | None:
        """Go on to the batch's next answer; false when there is none."""
        raise NotImplementedError

    def close(self) -> None:
        """Give up the cursor."""
        raise NotImplementedError


class DriverConnection(Protocol):
    """The part of the DB-API's connection that sessions use."""

    def cursor(self) -> DriverCursor:
        """Make a cursor."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection; what is not committed is rolled back."""


def connect(source: DataSource) -> DriverConnection:
    """Open a connection in autocommit mode; blocks for `source.connect_timeout` seconds at most.

    Raises the driver's errors, and ConfigurationError when there is no driver.
    """
    module = load_driver()
    connection: DriverConnection = module.connect(
        source.connection_string, autocommit=True, timeout=source.connect_timeout
    )
    # Left there, it would be closed when the interpreter ends, in the middle of a call perhaps, and hang: `threads`
    # interrupts the call first.
    getattr(module, "_active_connections", set[object]()).discard(connection)
    return connection


def load_driver() -> Any:  # noqa: ANN401 - a module that need not be there, so no checker knows it
    """Import the driver; raises ConfigurationError when it is missing or cannot be loaded.

    The first to import it switches off its own pool, unless the program has set it up: a connection put back into that
    pool inside a transaction keeps its locks until it is taken out again.
    """
    try:
        module = import_module(MODULE)
    except ImportError as error:
        why = "" if error.name == MODULE else f" ({error})"
        raise ConfigurationError(
            "SQL Server needs Microsoft's driver for Python: install Rowbus with its extra, "
            f"`{install_command('sqlserver')}`.{why}"
        ) from error
    if not module.PoolingManager.is_initialized():
        module.pooling(enabled=False)
    return module
