"""A DuckLake's catalogue: tables of a schema in the database that the lake follows, as version 1.0 specifies them.

A snapshot is a row, and all tables are in it. So the changes of a batch in all tables, and its number in each, are one
commit. Another program that makes a snapshot at the same time waits, and then takes the next number.

Invariants: a snapshot is complete when it can be seen; a table has a batch when the snapshot has its rows; nothing of
a schema is run or read before it is known that no stranger can change it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.database import ownership
from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import Statement, control, load, no_rows, scalar, split_script
from rowbus.errors import ConfigurationError
from rowbus.log.schema.table import foreign_objects

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
    from datetime import timedelta

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Decode, Rows, T
    from rowbus.spark.lake.files import DataFile
    from rowbus.spark.lake.table import AppTransaction

SCHEMA: Final = "ducklake"
VERSION: Final = "1.0"
_FOLDER: Final = "spark/lake/sql/postgresql"
_BEGIN: Final = control(
    b"set transaction isolation level repeatable read", "Could not begin to change a DuckLake"
)
_LOOK: Final = control(
    b"set transaction isolation level repeatable read, read only", "Could not look at a DuckLake"
)


class LakeColumn(NamedTuple):
    """A column of a table, or the elements of a list, whose column is the parent."""

    id: int
    name: str
    type: str
    place: int
    filled: str | None = None
    """The value in files of before the column."""

    parent: int | None = None


class LakeFile(NamedTuple):
    """A file of a table, and the file of its deletions, by their paths in the table's folder."""

    id: int
    path: str
    rows: int
    size: int
    deletes: str | None
    deleted: int | None


class FileChange(NamedTuple):
    """The change of a table's files."""

    ended: Sequence[LakeFile] = ()
    added: Sequence[DataFile] = ()
    deletions: Sequence[tuple[LakeFile, DataFile]] = ()
    """Files of deletions, each instead of the one that its data file had."""


class Moment(NamedTuple):
    """A snapshot of the database, by the name under which other sessions take it, and a time before it was taken."""

    snapshot: str
    began: int
    """Microseconds since 1970."""


class DuckLake:
    """The catalogue in a schema; one transaction at a time."""

    def __init__(self, folder: str, dsn: str | None, schema: str | None) -> None:
        """Take the folder of the files, the database, and the schema. No I/O."""
        self._place = f"{folder}/"
        self._dsn = dsn
        self._names = {"schema": schema or SCHEMA}
        self._session: Session | None = None
        self._snapshot: NewSnapshot | None = None
        self._moment: Moment | None = None

    @contextmanager
    def together(self, *, makes: bool = True) -> Generator[None]:
        """Commit what the block changes at once; within such a block, with that. `makes` the catalogue.

        Waits for others who change it. Raises ConfigurationError for a catalogue of another lake.
        """
        if self._session is not None:
            yield
            return
        with self._database().session() as session:
            if not self._check(session, may_lack=makes):
                self._make(session)
            with session.transaction():
                session.run(_BEGIN)
                self._session = session
                try:
                    self.run("limit_waiting", no_rows)
                    self.run("lock_snapshots", no_rows)
                    self.run("stay_open", no_rows)
                    yield
                    if self._snapshot is not None:
                        self._snapshot.end()
                finally:
                    self._session = self._snapshot = self._moment = None

    def check(self) -> None:
        """Raise ConfigurationError for a catalogue of another lake, or of a stranger."""
        with self.looking(may_lack=True):
            pass

    @contextmanager
    def looking(self, *, may_lack: bool = False) -> Generator[bool]:
        """Look at one state of the catalogue, within `together` that of its block; gives whether there is one.

        Raises ConfigurationError for a catalogue of another lake, and where there has to be one.
        """
        if self._session is not None:
            yield True
            return
        with self._database().session() as session, session.transaction():
            session.run(_LOOK)
            is_there = self._check(session, may_lack=may_lack)
            self._session = session
            try:
                yield is_there
            finally:
                self._session = None

    def run(self, operation: str, decode: Decode[T], **parameters: object) -> T:
        """Run a statement, within `together` or `looking`."""
        if self._session is None:
            raise RuntimeError("A catalogue is looked at and changed in a transaction.")
        return self._session.run(self._statement(operation, decode, **parameters))

    def moment(self) -> Moment:
        """Return the state of the database that this transaction sees, for copies that are all of one moment."""
        if self._moment is None:
            self._moment = Moment(*self.run("export_snapshot", _row))
        return self._moment

    def table(self, namespace: str, name: str) -> LakeTable:
        """Return a table as it is now, within `together` or `looking`."""
        found = self.run("find_table", scalar, namespace=namespace, table=name)
        return LakeTable(self, (namespace, name), found)

    def newest(self, namespace: str, name: str, app: str) -> int | None:
        """Return the number of an application's newest batch in a table; None before its first."""
        with self.looking(may_lack=True) as is_there:
            asked = {"namespace": namespace, "table": name, "app": app}
            found = self.run("find_batch", _first_column, **asked) if is_there else ()
            return int(found[0]) if found else None

    def version(self) -> int:
        """Return the newest snapshot's number."""
        with self.looking():
            return int(self.run("find_snapshot", scalar))

    def paths(self, namespace: str, name: str, older_than: timedelta, noted: int | None) -> set[str]:
        """Return the files that a table needs in snapshots that `forget` keeps, by their paths within its folder."""
        with self.looking():
            asked = {"namespace": namespace, "table": name, "oldest": self._oldest(older_than, noted)}
            return {*self.run("find_files", _first_column, **asked)}

    def forget(self, older_than: timedelta, noted: int | None) -> None:
        """Forget the snapshots that were not the newest any more that long ago, if they are older than one.

        Waits for who writes files now: they are named or younger when this returns.
        """
        with self.together(makes=False):
            self.run("forget_snapshots", no_rows, oldest=self._oldest(older_than, noted))

    def _oldest(self, older_than: timedelta, noted: int | None) -> int:
        return int(self.run("find_oldest", scalar, older_than=older_than, noted=noted))

    def snapshot(self) -> NewSnapshot:
        """Return the snapshot of this transaction, begun if it was not."""
        if self._snapshot is None:
            self._snapshot = NewSnapshot(self, *self.run("begin_snapshot", _row))
        return self._snapshot

    def _database(self) -> Database:
        return Database(resolve_dsn(self._dsn), application_name="rowbus spark lake")

    def _statement(self, operation: str, decode: Decode[T], **parameters: object) -> Statement[T]:
        query = load(
            f"{_FOLDER}/{operation}.sql",
            identifiers=self._names,
            failing=f"DuckLake in schema {self._names['schema']}: could not {operation.replace('_', ' ')}",
            prepare=False,
        )
        return Statement(query, parameters, decode)

    def _make(self, session: Session) -> None:
        with session.transaction():
            if not self._find(session)[0]:
                session.run(self._statement("make_namespace", no_rows))
            script = self._statement("create_catalogue", no_rows).query
            for text in split_script(script.native.decode()):
                session.run(control(text.encode(), script.failing))
            session.run(self._statement("begin_catalogue", no_rows, data_path=self._place))

    def _find(self, session: Session) -> tuple[bool, bool]:
        """Say whether there is the schema, and a DuckLake in it."""
        has_schema, has_lake = session.run(self._statement("find_catalogue", _row, **self._names))
        return has_schema, has_lake

    def _check(self, session: Session, *, may_lack: bool) -> bool:
        """Say whether there is the catalogue; raises ConfigurationError for one of another lake, or of a stranger."""
        schema = self._names["schema"]
        if found := ownership.suspicious(session.run(foreign_objects([schema]))):
            raise ConfigurationError(ownership.refusal(found, "the lake"), option="catalog")
        if not self._find(session)[1]:
            if may_lack:
                return False
            raise ConfigurationError(
                f"This database has no DuckLake in schema {schema}: give the one that the tables in {self._place} "
                "follow (--database, or ROWBUS_DATABASE).",
            )
        version, path = session.run(self._statement("describe_catalogue", _row))
        if (version, path) != (VERSION, self._place):
            raise ConfigurationError(
                f"Schema {schema} has a DuckLake of version {version} in {path}, not one of version {VERSION} in "
                f"{self._place}. Have the catalogue in another schema (--catalog), or give that folder.",
                option="catalog",
            )
        return True


class NewSnapshot:
    """A snapshot that is being made: its numbers, and what it changes."""

    def __init__(self, lake: DuckLake, number: int, version: int, catalog: int, file: int) -> None:
        """Take the snapshot's own number, and the next ones."""
        self._lake = lake
        self.number = number
        self._version = version
        self._next = {"catalog": catalog, "file": file}
        self._changes: dict[str, None] = {}
        self._batches: dict[str, None] = {}
        self._is_altered = False

    def take(self, kind: str) -> int:
        """Return the next number of a `file`, or of what is in the `catalog`."""
        self._next[kind] += 1
        return self._next[kind] - 1

    def note(self, change: str) -> None:
        """Note what is changed, in the words of the specification."""
        self._changes[change] = None

    def altered(self) -> int:
        """Return the version of the schema: another one than that of the last snapshot."""
        self._version += not self._is_altered
        self._is_altered = True
        return self._version

    def name(self, batch: AppTransaction) -> None:
        """Have the snapshot say which batch it is of."""
        self._batches[f"batch {batch.number} of {batch.app}"] = None

    def end(self) -> None:
        """Write what the snapshot came to."""
        numbers = {"next_catalog_id": self._next["catalog"], "next_file_id": self._next["file"]}
        told = {"changes": ",".join(self._changes), "message": ", ".join(self._batches) or None}
        self._lake.run(
            "end_snapshot", no_rows, snapshot=self.number, schema_version=self._version, **numbers, **told
        )


class LakeTable:
    """A table as a transaction found it, and its changes."""

    def __init__(self, lake: DuckLake, name: tuple[str, str], found: Mapping[str, Any]) -> None:
        """Take what `find_table.sql` found."""
        self._lake = lake
        self._name = name
        self._schema_id: int | None = found["schema_id"]
        self._id: int | None = found["table_id"]
        self.columns = [LakeColumn(**column) for column in found["columns"] or ()]
        self.files = [LakeFile(**file) for file in found["files"] or ()]
        self._last: int = found["last_column"] or 0

    def next_column(self) -> int:
        """Return a number for a new column."""
        self._last += 1
        return self._last

    def create(self, path: str) -> None:
        """Make the table if it is not there, in a folder of the lake, and its schema likewise."""
        if self._id is not None:
            return
        snapshot, (namespace, name) = self._lake.snapshot(), self._name
        if self._schema_id is None:
            self._schema_id = snapshot.take("catalog")
            self._run("create_schema", schema_id=self._schema_id, namespace=namespace)
            snapshot.note(f"created_schema:{_quoted(namespace)}")
        self._id = snapshot.take("catalog")
        self._run("create_table", table_id=self._id, schema_id=self._schema_id, table=name, path=path)
        snapshot.note(f"created_table:{_quoted(namespace)}.{_quoted(name)}")

    def alter(self, columns: Collection[LakeColumn]) -> None:
        """Give the table these columns; those of a known number go on."""
        held, wanted = set(self.columns), set(columns)
        if held == wanted:
            return
        snapshot = self._lake.snapshot()
        self._run(
            "change_columns",
            table_id=self._id,
            schema_version=snapshot.altered(),
            ended=[column.id for column in held - wanted],
            begun=json.dumps([column._asdict() for column in sorted(wanted - held)]),
        )
        snapshot.note(f"altered_table:{self._id}")
        self.columns = list(columns)

    def change(self, change: FileChange, batch: AppTransaction | None) -> None:
        """Change the table's files, and note the batch."""
        snapshot = self._lake.snapshot()
        added = [_described(file) | {"id": snapshot.take("file")} for file in change.added]
        deletions = [
            _described(file) | {"id": snapshot.take("file"), "of": of.id} for of, file in change.deletions
        ]
        self._run(
            "change_files",
            table_id=self._id,
            ended=[file.id for file in change.ended],
            undone=[file.id for file in [*change.ended, *(of for of, _ in change.deletions)]],
            added=json.dumps(added),
            deletions=json.dumps(deletions),
            bounds=json.dumps(
                [
                    bounds
                    for about, file in zip(added, change.added, strict=True)
                    for bounds in self._bounds(about["id"], file)
                ]
            ),
        )
        if added:
            snapshot.note(f"inserted_into_table:{self._id}")
        if change.ended or deletions:
            snapshot.note(f"deleted_from_table:{self._id}")
        if batch is not None:
            self._lake.run("note_batch", no_rows, table_id=self._id, app=batch.app, number=batch.number)
            snapshot.name(batch)

    def _bounds(self, number: int, file: DataFile) -> Iterable[Mapping[str, object]]:
        """Give the least and greatest whole numbers of a file's columns; readers pass over files by them."""
        whole = (it for it in self.columns if it.parent is None and it.type.startswith("int"))
        numbers = {column.name: column.id for column in whole}
        for name in numbers.keys() & file.least.keys() & file.nulls.keys():
            least, greatest, nulls = file.least[name], file.greatest[name], file.nulls[name]
            counts = {"file": number, "column": numbers[name], "nulls": nulls, "values": file.rows - nulls}
            yield counts | {"least": str(least), "greatest": str(greatest)}

    def _run(self, operation: str, **parameters: object) -> None:
        self._lake.run(operation, no_rows, snapshot=self._lake.snapshot().number, **parameters)


def _described(file: DataFile) -> dict[str, Any]:
    return {"path": file.path, "rows": file.rows, "size": file.size}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _row(rows: Rows, _count: int) -> tuple[Any, ...]:
    return rows[0]


def _first_column(rows: Rows, _count: int) -> list[Any]:
    return [row[0] for row in rows]
