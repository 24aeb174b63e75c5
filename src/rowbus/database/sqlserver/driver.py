"""The one place where Microsoft's driver is imported and a connection of its is made.

Sessions use no more of it than the protocols below, which pymssql, pyodbc and the tests' stand-in fulfil as well.

Invariant: `connect` is looked up in this module at each use, so that tests can put a stand-in in its place; what it
returns is in autocommit mode, because transactions are begun and ended by statements.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from rowbus.errors import ConfigurationError
from rowbus.errors.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sqlserver.dsn import DataSource

MODULE = "mssql_python"


class DriverCursor(Protocol):
    """What sessions use of a cursor of the DB-API."""

    description: Any  # Sequence[tuple[str, ...]] | None
    rowcount: int

    def execute(self, operation: str, /, *parameters: Any) -> object:  # noqa: ANN401 - drivers take what they like
        """Run one batch; its marks are the driver's, ours come as one sequence."""
        raise NotImplementedError

    def executemany(self, operation: str, parameters: Sequence[Sequence[object]], /) -> object:
        """Run one batch for each row of parameters."""
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
    """What sessions use of a connection of the DB-API."""

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
