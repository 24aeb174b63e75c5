"""The folder of a lake: a table for each table of the database, and what is known of their copies.

A table's record names its copies by number; the table itself says which of them it holds. So a record is written
before the copy, and counts once the copy is committed.

What is known lies in small JSON files beside the tables, in an object store, too. So a lake can be read, compared and
moved without the database that it follows; nothing in them must change together with it, because each table's own
commits say what counts.

Invariants: each change of a table is one commit, and records its batch's number; a file is replaced as a whole, so a
killed process leaves the old one or the new one (an object store does that with any object, on a disk a new file is
renamed); what is said of a table's completeness never exceeds what it holds: of copies of which only the table knows
which it holds, the earliest counts; an older note is read with the defaults of what it does not say.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit

from rowbus.errors import ConfigurationError
from rowbus.spark.lake.storage import address, file_system, is_remote
from rowbus.spark.log_source.offset import TxidSnapshot
from rowbus.spark.options import tables_named

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping, Sequence

    import pyarrow as pa
    from pyarrow import fs

    from rowbus.spark.lake.ducklake import DuckLake
    from rowbus.spark.lake.files import Rows
    from rowbus.spark.lake.table import AppTransaction
    from rowbus.spark.lake.tables.evolution import Reshaping
    from rowbus.spark.log_source.offset import TickPosition

STATE: Final = "_rowbus"
TICK: Final = "tick.json"
COMPLETE: Final = "complete.json"
CHECKPOINT: Final = "checkpoint"
FORMAT: Final = "format.json"
OWNER: Final = "consumer.json"
ASKED: Final = "asked"
COPIES: Final = "copies"
HISTORY: Final = "history"
_ODD: Final = re.compile(r"[^\w .,&+@!'()$=-]|(?<=^catalog)\.(?=db$)")
"""Texts that paths may not have, nor the addresses that libraries make of them; and the name of Iceberg's catalogue."""

_LONG: Final = 240  # file names have up to 255 bytes

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Copy(NamedTuple):
    """A copy of a table: the snapshot and the shape it was made of, and the columns that are text."""

    snapshot: str
    shape: str
    as_text: list[str]
    moment: int = 0
    """Microseconds since 1970."""

    form: str = ""
    """The table's `TableForm` as JSON; empty where it is not sure that the copy shows it."""

    key: Sequence[str] = ()
    earlier: tuple[dict[str, str | None], dict[str, str | None]] = ({}, {})
    """An `Evolution`: how rows in the log may look that were written before the table was altered."""

    began: int = 0
    """Microseconds since 1970, before the snapshot was taken: what was committed by then is in the copy."""


class Completeness(NamedTuple):
    """The completeness of a table."""

    tick: int | None
    """The log's tick whose events are all in the table; None before the first batch after its copy."""

    time: datetime
    """All that was committed before it, by the clock of the database, is in the table."""

    snapshot: str
    """As PostgreSQL writes it: all transactions that it sees are in the table."""

    def shows(self, until: int | datetime) -> bool:
        """Say whether a transaction has ended and is in the table, or all is that was committed before a time."""
        if isinstance(until, datetime):
            return self.time >= until
        return TxidSnapshot.parse(self.snapshot).sees(until)

    def and_more(self, other: Completeness) -> Completeness:
        """Return how far a table is that shows what both say; their snapshots are of one server."""
        newer = max(self, other, key=_age)
        ticks = [tick for tick in (self.tick, other.tick) if tick is not None]
        return Completeness(max(ticks, default=None), max(self.time, other.time), newer.snapshot)


def completeness(copies: Collection[Copy], end: TickPosition | None) -> Completeness | None:
    """Return how far a table is that holds one of these copies, and the events before a tick; None without a copy."""
    if not copies:
        return None
    copied = min(map(_copied, copies), key=_age)
    return copied if end is None else copied.and_more(_ended(end))


def is_shown(tables: Mapping[str, Completeness], patterns: Iterable[str], until: int | datetime) -> bool:
    """Say whether all tables show a transaction, or what was committed before a time; each pattern has to name one."""
    named = [tables_named(tables, pattern) for pattern in patterns]
    return all(names and all(tables[name].shows(until) for name in names) for names in named)


def _copied(copy: Copy) -> Completeness:
    return Completeness(None, _EPOCH + timedelta(microseconds=copy.began), copy.snapshot)


def _ended(end: TickPosition) -> Completeness:
    return Completeness(end.tick, datetime.fromisoformat(end.ts), end.snap)


def _age(given: Completeness) -> tuple[int, int, int]:
    """Order the snapshots of one server: a later one sees more, so that fewer of the same are running."""
    snapshot = TxidSnapshot.parse(given.snapshot)
    return snapshot.xmax, snapshot.xmin, -len(snapshot.running)


class LakeFormat(NamedTuple):
    """The format of a lake's tables, and their catalogue."""

    format: TableFormat = "delta"
    catalog: str | None = None
    """A URL, or a name by which pyiceberg knows it; it has no credentials. A DuckLake's is a schema of the database."""

    def __str__(self) -> str:
        """Name the format, and the catalogue if there is one."""
        return f"{self.format} tables" + (f" in the catalogue {self.catalog}" if self.catalog else "")


class LakeFolder:
    """Where the tables are."""

    def __init__(self, path: str | Path, dsn: str | None = None) -> None:
        """Take the folder, and the database that it follows, which has a DuckLake's catalogue. No I/O."""
        self.path = address(path)
        self.state = state_files(f"{self.path}/{STATE}")
        self._dsn = dsn
        self._ducklakes: dict[LakeFormat, DuckLake] = {}

    def table(self, name: str) -> str:
        """Return the folder of a table."""
        return f"{self.path}/{_ODD.sub(_escaped, name)}"

    def format(self) -> TableFormat:
        """Return the format of the tables; Delta where nothing is said."""
        return self._noted_format().format

    def stored(self, name: str) -> StoredTable:
        """Return a table, in the format of the lake."""
        noted = self._noted_format()
        if noted.format != "ducklake":
            return stored_table(self.table(name), name, *noted)
        from rowbus.spark.lake.tables.ducklake_table import StoredDuckLake  # noqa: PLC0415 - slow to import

        return StoredDuckLake(self.table(name), name, self._catalogue(noted))

    def ducklake(self) -> DuckLake | None:
        """Return the catalogue of a DuckLake, which has one transaction; None where tables have another format."""
        noted = self._noted_format()
        return self._catalogue(noted) if noted.format == "ducklake" else None

    @contextmanager
    def together(self) -> Generator[None]:
        """Have a DuckLake's tables change at once, in one commit; tables of other formats have a commit each."""
        lake = self.ducklake()
        with lake.together() if lake else nullcontext():
            yield

    def _catalogue(self, noted: LakeFormat) -> DuckLake:
        from rowbus.spark.lake.ducklake import DuckLake  # noqa: PLC0415 - needs a driver

        return self._ducklakes.setdefault(noted, DuckLake(self.path, self._dsn, noted.catalog))

    def settle(self, kind: TableFormat | None, catalog: str | None = None) -> None:
        """Settle on a format and a catalogue before the first table is made.

        Raises ConfigurationError when tables have others, and for a catalogue of other than Iceberg tables.
        """
        held = self._noted_format()
        wanted = LakeFormat(kind or held.format, catalog or held.catalog)
        if wanted.catalog and wanted.format == "delta":
            raise ConfigurationError(
                "A catalogue is for the formats iceberg and ducklake: leave it out, or give one of these.",
                option="catalog",
            )
        if wanted.catalog and wanted.format == "ducklake" and "://" in wanted.catalog:
            raise ConfigurationError(
                "A DuckLake's catalogue is a schema in the database that the lake follows: give its name, no URL.",
                option="catalog",
            )
        if catalog and urlsplit(catalog).password:
            raise ConfigurationError(
                "A catalogue's URL has no password: the lake notes it. PostgreSQL's may be in PGPASSWORD or .pgpass, "
                "others in pyiceberg's configuration.",
                option="catalog",
            )
        if wanted == held:
            return
        if self.state.has(COPIES):
            raise ConfigurationError(
                f"The tables in {self.path} are {held}, not {wanted}. Give another folder, or leave out the format and "
                "the catalogue.",
                option="tableFormat" if wanted.format != held.format else "catalog",
            )
        if wanted.format == "ducklake":
            self._catalogue(wanted).check()
        self.state.write(FORMAT, wanted._asdict())

    def _noted_format(self) -> LakeFormat:
        return LakeFormat(**self.state.read(FORMAT, {}))

    def belong(self, log: str, consumer: str) -> None:
        """Note whose the folder is, once; raises ConfigurationError for another log or consumer."""
        ours = {"log": log, "consumer": consumer}
        if (theirs := self.state.read(OWNER)) is None:
            self.state.write(OWNER, ours)
        elif theirs != ours:
            raise ConfigurationError(
                f"The tables in {self.path} follow log {theirs['log']} as consumer {theirs['consumer']}, not log {log} "
                f"as {consumer}. Give those, or another folder.",
                option="consumer",
            )

    def names(self) -> list[str]:
        """Return the names of the tables that were ever begun, those of versions among them, in order."""
        return sorted(self._noted(COPIES) | self._noted(HISTORY))

    def copies(self, name: str) -> dict[int, Copy]:
        """Return the copies of a table that were begun, by their numbers."""
        return {
            int(number): Copy(*copy) for number, copy in self.state.read(_record(COPIES, name), {}).items()
        }

    def note_copy(self, name: str, number: int, copy: Copy, *, instead_of: int) -> None:
        """Note a copy before it is made; that which it replaces, and others that were begun since, are kept."""
        kept = {held: it for held, it in self.copies(name).items() if held >= instead_of} | {number: copy}
        self.state.write(_record(COPIES, name), kept)

    def ask(self, names: Iterable[str]) -> None:
        """Ask the job that keeps the lake to copy tables anew."""
        self.state.write(_record(ASKED, secrets.token_hex(8)), sorted(names))

    def asked(self) -> dict[str, list[str]]:
        """Return the tables that are to be copied anew, by the files that ask for them."""
        files = [_record(ASKED, name) for name in self.state.names(ASKED)]
        return {file: self.state.read(file, []) for file in files}

    def epochs(self, name: str) -> dict[int, tuple[str, int]]:
        """Return the snapshots and moments of the copies that a table of versions followed, by their numbers."""
        found = self.state.read(_record(HISTORY, name), {})
        return {int(number): (snapshot, moment) for number, (snapshot, moment) in found.items()}

    def keeps_history(self) -> bool:
        """Return whether there are tables of versions."""
        logs = (state_files(self.table(name)) for name in self._noted(HISTORY))
        return any(log.has("_delta_log") for log in logs)

    def note_epoch(self, name: str, number: int, copy: Copy, *, after: int) -> None:
        """Note a copy before a table of versions follows it; those that it did not follow are forgotten."""
        kept = {known: it for known, it in self.epochs(name).items() if known <= after}
        self.state.write(_record(HISTORY, name), kept | {number: (copy.snapshot, copy.moment)})

    def note_tick(self, batch: int, versions: Mapping[str, int]) -> None:
        """Note the tables' versions at the end of a batch: together they are the database as it was at a tick."""
        self.state.write(TICK, {"batch": batch, "versions": dict(versions)})

    def versions(self) -> dict[str, int]:
        """Return the versions in which the tables are the database as it was at one tick."""
        found: dict[str, int] = self.state.read(TICK, {"versions": {}})["versions"]
        return found

    def note_complete(self, names: Iterable[str], end: TickPosition | None) -> None:
        """Note how far the tables are: of each, a copy is committed, and all events before a tick, if one is given.

        Tables that are not named are not followed any more: nothing is said of them.
        """
        found = {name: completeness(self.copies(name).values(), end) for name in names}
        told = {
            name: {"tick": known.tick, "time": known.time.isoformat(), "snapshot": known.snapshot}
            for name, known in found.items()
            if known is not None
        }
        self.state.write(COMPLETE, told)

    def complete(self) -> dict[str, Completeness]:
        """Return how far each table is that is followed."""
        return {
            name: Completeness(known["tick"], datetime.fromisoformat(known["time"]), known["snapshot"])
            for name, known in self.state.read(COMPLETE, {}).items()
        }

    def _noted(self, what: str) -> set[str]:
        return {unquote(name) for name in self.state.names(what)}


def _record(what: str, name: str) -> str:
    """Return the file of a record."""
    text = quote(name, safe=" .")
    if len(text) > _LONG:  # letters as they are take less
        text = name.replace("%", "%25").replace("/", "%2F")
    return f"{what}/{text}.json"


def _escaped(found: re.Match[str]) -> str:
    """Return a character as hexadecimal bytes; after a tilde, because delta-rs decodes those after a per cent sign."""
    return "".join(f"~{byte:02X}" for byte in found[0].encode())


TableFormat = Literal["delta", "iceberg", "ducklake"]


class StoredTable(Protocol):
    """A table of a lake; there is none before the first `replace`."""

    def fitted(self, schema: pa.Schema) -> pa.Schema:
        """Return columns with types that the format has; none is narrower."""
        ...

    def newest(self, app: str) -> int | None:
        """Return the number of an application's newest batch; None before its first."""
        ...

    def version(self) -> int:
        """Return the number by which readers find the table as it is now."""
        ...

    def replace(self, schema: pa.Schema, rows: Iterable[pa.RecordBatch], batch: AppTransaction) -> None:
        """Replace columns and contents, or make the table."""
        ...

    def reshape(self, schema: pa.Schema, change: Reshaping, batch: AppTransaction) -> None:
        """Give the table other columns, with the rows that it has; raises Unfit."""
        ...

    def write(self, rows: Iterable[pa.RecordBatch], batch: AppTransaction, *, emptied: bool) -> None:
        """Add rows, or replace the contents by them; reads few rows at a time."""
        ...

    def merge(self, changed: pa.Table, rows: Rows, keys: Sequence[str], batch: AppTransaction) -> None:
        """Write rows instead of those with the keys of `changed`; reads few rows at a time."""
        ...

    def compact(self) -> int:
        """Merge small files in a commit of its own, if there are many; return how many are replaced.

        The rows stay the same. 0 as well when there is no table, and when another commit came first.
        """
        ...

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read all rows."""
        ...

    def unneeded(self, older_than: timedelta, noted: int | None) -> list[str]:
        """Return files that no version needs any more, by their paths in the folder; those of `noted` are needed."""
        ...


def stored_table(path: str, name: str, kind: TableFormat, catalog: str | None = None) -> StoredTable:
    """Return a table of a lake: `path` is its folder, within that of the lake. No I/O."""
    if kind == "delta":
        from rowbus.spark.lake.delta import StoredDelta  # noqa: PLC0415 - only the library asked for

        return StoredDelta(path)
    from rowbus.spark.lake.tables.iceberg_table import StoredIceberg  # noqa: PLC0415 - as above

    return StoredIceberg(path, name, catalog)


# -------------------------------------------------------------------------------- what is known of a lake, in its files


class StateFiles(Protocol):
    """JSON files in a folder, by their names within it."""

    def read(self, name: str, otherwise: Any = None) -> Any:  # noqa: ANN401 - what JSON can say
        """Read a file; where there is none, return something else."""
        ...

    def write(self, name: str, value: Any) -> None:  # noqa: ANN401 - what JSON can say
        """Replace a file as a whole."""
        ...

    def names(self, folder: str) -> set[str]:
        """Return the names of the files in a folder, without the ending; empty where there is no folder."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        ...

    def has(self, name: str) -> bool:
        """Return whether there is a file or a folder; with the empty name, the folder of the files itself."""
        ...


def state_files(path: str) -> StateFiles:
    """Return the files of a folder. No I/O."""
    return _Objects(path) if is_remote(path) else _LocalFiles(Path(path))


class _LocalFiles:
    """Files of this machine; they are read without PyArrow, which web applications need not have."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str, otherwise: Any = None) -> Any:  # noqa: ANN401 - what JSON can say
        try:
            return json.loads((self._path / name).read_text())
        except FileNotFoundError:
            return otherwise

    def write(self, name: str, value: Any) -> None:  # noqa: ANN401 - what JSON can say
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        with new.open("w") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def names(self, folder: str) -> set[str]:
        return {file.stem for file in (self._path / folder).glob("*.json")}

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        return (self._path / name).exists()


class _Objects:
    """Objects of a store."""

    def __init__(self, path: str) -> None:
        self._path = path

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        return file_system(self._path)

    def read(self, name: str, otherwise: Any = None) -> Any:  # noqa: ANN401 - what JSON can say
        system, root = self._place
        try:
            with system.open_input_stream(f"{root}/{name}") as file:
                return json.loads(file.read())
        except FileNotFoundError:
            return otherwise

    def write(self, name: str, value: Any) -> None:  # noqa: ANN401 - what JSON can say
        system, root = self._place
        with system.open_output_stream(f"{root}/{name}") as file:
            file.write(json.dumps(value).encode())

    def names(self, folder: str) -> set[str]:
        from pyarrow import fs  # noqa: PLC0415 - slow to import

        system, root = self._place
        found = system.get_file_info(fs.FileSelector(f"{root}/{folder}", allow_not_found=True))
        return {file.base_name.removesuffix(".json") for file in found if file.base_name.endswith(".json")}

    def remove(self, name: str) -> None:
        system, root = self._place
        try:
            system.delete_file(f"{root}/{name}")
        except FileNotFoundError:
            return

    def has(self, name: str) -> bool:
        system, root = self._place
        return bool(system.get_file_info(f"{root}/{name}".rstrip("/")).type.name != "NotFound")
