"""Commits to an Iceberg table through pyiceberg: each batch of an application once.

The catalogue is SQLite in the table's folder, or one that is named: by a URL, or as pyiceberg is configured with it. A
table property records the newest batch of each application, changed in the commit that adds the files; each snapshot
names its batch, too. Maintenance may expire a snapshot, so a repeated batch is recognised by the property.

Invariant: a batch's files and its number enter the table in one commit, or neither does.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import ALWAYS_TRUE
from pyiceberg.utils.config import Config
from sqlalchemy.exc import DBAPIError

from rowbus.errors import ConfigurationError
from rowbus.spark.lake.iceberg_files import PROPERTIES, Change
from rowbus.spark.lake.merge import newest
from rowbus.spark.lake.storage import is_remote, s3_server
from rowbus.spark.lake.table import AppTransaction, refuse_other_columns, retried

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from rowbus.spark.lake.files import DataFile, Layout
    from rowbus.spark.merge_rule import MergeRule

NAME: Final = "rowbus"
"""The catalogue's name: in its tables, and in pyiceberg's configuration."""

NEWEST = "rowbus.batch."
"""Prefix of the property that holds an application's newest batch."""


class IcebergLake:
    """An Iceberg table in a folder, known to a catalogue."""

    def __init__(self, layout: Layout, table: str | None, catalog: str | None) -> None:
        """Take the layout; the table and, in SQLite, the catalogue are made by the first commit."""
        self._layout = layout
        self._name = table or f"lake.{Path(layout.path).name}"
        self._catalog_name = catalog

    def commit(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        """Add the files to the table, or replace its contents; False if the batch is there already."""
        return self._once(batch, lambda change: self._change(change, files, overwrite=overwrite))

    def merge(self, rows: pa.Table, batch: AppTransaction | None, rule: MergeRule) -> bool:
        """Write the newest row of each key, or delete it; False if the batch is there already."""
        changes = newest(rows, rule)
        return self._once(batch, lambda change: change.merge_newest(changes, rule.keys, rule.sequence))

    def referenced(self) -> set[str]:
        """Return the files of all snapshots, by their paths within the folder."""
        with closing(self._catalog()) as catalog:
            try:
                table = catalog.load_table(self._name)
            except NoSuchTableError:
                return set()
            paths = table.inspect.all_files().column("file_path").to_pylist()
        return {str(path).removeprefix(f"{self._layout.path}/") for path in paths}

    def _once(self, batch: AppTransaction | None, change: Callable[[Change], None]) -> bool:
        return retried(lambda: self._try(batch, change), CommitFailedException)

    def _try(self, batch: AppTransaction | None, change: Callable[[Change], None]) -> bool:
        with _conflicts():
            catalog = self._catalog()
        with closing(catalog):
            with _conflicts():
                table = self._load(catalog)
            if batch is not None and batch.is_in(self._layout.path, newest_batch(table, batch.app)):
                return False
            with changing(table, batch) as transaction:
                change(transaction)
            return True

    def _change(self, change: Change, files: Sequence[DataFile], *, overwrite: bool) -> None:
        if overwrite:
            change.transaction.delete(ALWAYS_TRUE, snapshot_properties=change.named)
        if files:
            paths = [f"{self._layout.path}/{file.path}" for file in files]
            change.transaction.add_files(paths, snapshot_properties=change.named, check_duplicate_files=False)

    def _load(self, catalog: Catalog) -> Table:
        """Load the table, or create it; raises ConfigurationError if it has other columns."""
        try:
            table = catalog.load_table(self._name)
        except NoSuchTableError:
            table = self._create(catalog)
        columns = {field.field_id: field.name for field in table.schema().fields}
        partitioned = tuple(columns[field.source_id] for field in table.spec().fields)
        refuse_other_columns(self._layout, table.schema().as_arrow(), partitioned)
        return table

    def _create(self, catalog: Catalog) -> Table:
        """Create the table with its partitions in one commit."""
        layout = self._layout
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        with (
            catalog.create_table_transaction(
                self._name, layout.schema, layout.path, properties=PROPERTIES
            ) as transaction,
            transaction.update_spec() as spec,
        ):
            for column in layout.partition_by:
                spec.add_identity(column)
        return catalog.load_table(self._name)

    def _catalog(self) -> Catalog:
        return catalog_of(self._layout.path, self._catalog_name)


def catalog_of(folder: str, named: str | None = None) -> Catalog:
    """Return the catalogue of a folder's tables, to be closed: SQLite in the folder, or another of any kind.

    That is at a URL, or pyiceberg is told of it by its name; an object store's is the one called `rowbus`, if none is
    named. Raises ConfigurationError for one that pyiceberg is not told of.
    """
    if named is None and not is_remote(folder):
        if not Path(folder, "catalog.db").exists():
            Path(folder).mkdir(parents=True, exist_ok=True)
            _in_folder.cache_clear()
        return _in_folder(folder)
    url = named if named and "://" in named else None
    name = NAME if named is None or url else named
    given: dict[str, Any] = {**(Config().get_catalog_config(name) or {}), **({"uri": url} if url else {})}
    if not given:
        raise ConfigurationError(
            f"pyiceberg knows no catalogue {name} for the Iceberg tables of {folder}: set "
            f"PYICEBERG_CATALOG__{name.upper()}__URI or the like, name it in .pyiceberg.yaml, or give a URL such as "
            "sqlite:///path, postgresql://user@host/database or https://host.",
            option="catalog",
        )
    return load_catalog(name, **{**_reaching(folder), **given, **_driven(str(given.get("uri", "")))})


@lru_cache(maxsize=8)
def _in_folder(folder: str) -> Catalog:
    """Return a folder's catalogue, made if it is not there; used again, once closed, it opens its file anew.

    Making one asks three questions of the file, and the next questions are compiled once for each that is made.
    """
    return SqlCatalog(NAME, uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)


def _driven(uri: str) -> dict[str, str]:
    """Let SQLAlchemy use psycopg 3."""
    scheme, _, rest = uri.partition("://")
    return {"uri": f"postgresql+psycopg://{rest}"} if scheme in {"postgresql", "postgres"} else {}


def _reaching(folder: str) -> dict[str, str]:
    """Return what tells pyiceberg how S3 and Glue are reached, where the environment says it."""
    if not folder.startswith("s3://"):
        return {}
    server, region = s3_server()
    return {name: value for name, value in (("s3.endpoint", server), ("client.region", region)) if value}


@contextmanager
def changing(table: Table, batch: AppTransaction | None) -> Generator[Change]:
    """Commit what the block changes, with the batch's number; raises CommitFailedException after another commit."""
    # The library would repeat a conflicting commit without a look at the other one; this stays in memory.
    table.metadata.properties["commit.retry.num-retries"] = "0"
    named = {"rowbus.app-id": batch.app, "rowbus.batch-id": str(batch.number)} if batch else {}
    with table.transaction() as transaction:
        yield Change(table, transaction, named)
        if batch is not None:
            transaction.set_properties({NEWEST + batch.app: str(batch.number)})


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


def newest_batch(table: Table, app: str) -> int | None:
    """Return the number of an application's newest batch; None before its first."""
    number = table.properties.get(NEWEST + app)
    return None if number is None else int(number)
