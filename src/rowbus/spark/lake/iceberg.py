"""Commits to an Iceberg table through pyiceberg: each batch of an application once.

The catalogue is a SQL database: SQLite in the table's folder, or PostgreSQL. A table property records the newest batch
of each application, changed in the commit that adds the files; each snapshot names its batch, too. Maintenance may
expire a snapshot, so a repeated batch is recognised by the property.

Invariant: a batch's files and its number enter the table in one commit, or neither does.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import ALWAYS_TRUE
from sqlalchemy.exc import DBAPIError

from rowbus.errors import ConfigurationError
from rowbus.spark.lake.files import file_system
from rowbus.spark.lake.table import AppTransaction, refuse_other_columns, retried

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pyiceberg.table import Table, Transaction

    from rowbus.spark.lake.files import DataFile, Layout

NEWEST = "rowbus.batch."
"""Prefix of the property that holds an application's newest batch."""


class IcebergLake:
    """An Iceberg table in a folder, known to a catalogue."""

    def __init__(self, layout: Layout, table: str | None, catalog: str | None) -> None:
        """Take the layout; the table and, in SQLite, the catalogue are made by the first commit."""
        self._layout = layout
        self._name = table or f"lake.{Path(layout.path).name}"
        self._uri = _driver(catalog) if catalog else None

    def commit(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        """Add the files to the table, or replace its contents; False if the batch is there already."""
        return retried(lambda: self._try(files, batch, overwrite=overwrite), CommitFailedException)

    def referenced(self) -> set[str]:
        """Return the files of all snapshots, by their paths within the folder."""
        with closing(self._catalog()) as catalog:
            try:
                table = catalog.load_table(self._name)
            except NoSuchTableError:
                return set()
            paths = table.inspect.all_files().column("file_path").to_pylist()
        return {str(path).removeprefix(f"{self._layout.path}/") for path in paths}

    def _try(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        with _conflicts():
            catalog = self._catalog()
        with closing(catalog):
            with _conflicts():
                table = self._load(catalog)
            if batch is not None and _holds(table, batch):
                return False
            # The library would repeat a conflicting commit without a look at the other one; this stays in memory.
            table.metadata.properties["commit.retry.num-retries"] = "0"
            with table.transaction() as transaction:
                self._change(transaction, files, batch, overwrite=overwrite)
            return True

    def _change(
        self,
        transaction: Transaction,
        files: Sequence[DataFile],
        batch: AppTransaction | None,
        *,
        overwrite: bool,
    ) -> None:
        named = {"rowbus.app-id": batch.app, "rowbus.batch-id": str(batch.number)} if batch else {}
        if overwrite:
            transaction.delete(ALWAYS_TRUE, snapshot_properties=named)
        if files:
            paths = [f"{self._layout.path}/{file.path}" for file in files]
            transaction.add_files(paths, snapshot_properties=named, check_duplicate_files=False)
        if batch is not None:
            transaction.set_properties({NEWEST + batch.app: str(batch.number)})

    def _load(self, catalog: SqlCatalog) -> Table:
        """Load the table, or create it; raises ConfigurationError if it has other columns."""
        try:
            table = catalog.load_table(self._name)
        except NoSuchTableError:
            table = self._create(catalog)
        columns = {field.field_id: field.name for field in table.schema().fields}
        partitioned = tuple(columns[field.source_id] for field in table.spec().fields)
        refuse_other_columns(self._layout, table.schema().as_arrow(), partitioned)
        return table

    def _create(self, catalog: SqlCatalog) -> Table:
        """Create the table with its partitions in one commit."""
        layout = self._layout
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        with (
            catalog.create_table_transaction(self._name, layout.schema, layout.path) as transaction,
            transaction.update_spec() as spec,
        ):
            for column in layout.partition_by:
                spec.add_identity(column)
        return catalog.load_table(self._name)

    def _catalog(self) -> SqlCatalog:
        system, root = file_system(self._layout.path)
        if self._uri is None:
            system.create_dir(root, recursive=True)
        uri = self._uri or f"sqlite:///{root}/catalog.db"
        return SqlCatalog("rowbus", uri=uri, warehouse=self._layout.path)


@contextmanager
def _conflicts() -> Generator[None]:
    """Raise a conflict, to be retried, when another process creates the catalogue or the table at the same time.

    The library checks first and creates then, so the database may refuse with an error of its own. Not for commits: a
    commit may have happened although the database failed.
    """
    try:
        yield
    except (NamespaceAlreadyExistsError, TableAlreadyExistsError, DBAPIError) as error:
        raise CommitFailedException(str(error)) from error


def _holds(table: Table, batch: AppTransaction) -> bool:
    return int(table.properties.get(NEWEST + batch.app, "-1")) >= batch.number


def _driver(uri: str) -> str:
    """Let SQLAlchemy use psycopg 3; raises ConfigurationError for an address that is no URL."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        raise ConfigurationError(
            f"The catalogue {uri!r} is not of the form sqlite:///path or postgresql://user@host/database.",
            option="catalog",
        )
    return f"postgresql+psycopg://{rest}" if scheme in {"postgresql", "postgres"} else uri
