"""The folder of a lake: a table for each table of the database, and what is known of their copies.

A table's record names its copies by number; the table itself says which of them it holds. So a record is written
before the copy, and counts once the copy is committed.

Invariant: each change of a table is one commit, and records its batch's number.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, Protocol
from urllib.parse import quote, unquote

from rowbus.errors import ConfigurationError
from rowbus.spark.lake.storage import address
from rowbus.spark.lake.tables.completeness import Completeness, completeness
from rowbus.spark.lake.tables.state import state_files
from rowbus.spark.lake.tables.table_copy import Copy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    import pyarrow as pa

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
_ODD: Final = re.compile(r"[^\w .,&+@!'()$=-]")
"""Texts that paths may not have, nor the addresses that libraries make of them."""


class LakeFolder:
    """Where the tables are."""

    def __init__(self, path: str | Path) -> None:
        """Take the folder. No I/O."""
        self.path = address(path)
        self.state = state_files(f"{self.path}/{STATE}")

    def table(self, name: str) -> str:
        """Return the folder of a table."""
        return f"{self.path}/{_ODD.sub(_escaped, name)}"

    def format(self) -> TableFormat:
        """Return the format of the tables; Delta where nothing is said."""
        found: TableFormat = self.state.read(FORMAT, {"format": "delta"})["format"]
        return found

    def settle(self, kind: TableFormat | None) -> None:
        """Settle on a format before the first table is made; raises ConfigurationError when tables have another one."""
        if kind is None or kind == self.format():
            return
        if self.state.has(COPIES):
            raise ConfigurationError(
                f"The tables in {self.path} are {self.format()} tables, not {kind}. Give another folder, or leave out "
                "the format.",
                option="tableFormat",
            )
        self.state.write(FORMAT, {"format": kind})

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
        files = (_record(ASKED, name) for name in self.state.names(ASKED))
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
    return f"{what}/{quote(name, safe=' .')}.json"


def _escaped(found: re.Match[str]) -> str:
    """Return a character as hexadecimal bytes; after a tilde, because delta-rs decodes those after a per cent sign."""
    return "".join(f"~{byte:02X}" for byte in found[0].encode())


TableFormat = Literal["delta", "iceberg"]


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

    def write(self, rows: pa.Table, batch: AppTransaction, *, emptied: bool) -> None:
        """Add rows, or replace the contents by them."""
        ...

    def merge(self, changes: pa.Table, keys: Sequence[str], batch: AppTransaction) -> None:
        """Write or delete rows, one for each key, as the column `DELETED` says."""
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


def stored_table(path: str, name: str, kind: TableFormat) -> StoredTable:
    """Return a table of a lake: `path` is its folder, within that of the lake. No I/O."""
    if kind == "delta":
        from rowbus.spark.lake.tables.delta_table import StoredDelta  # noqa: PLC0415 - only the library asked for

        return StoredDelta(path)
    from rowbus.spark.lake.tables.iceberg_table import StoredIceberg  # noqa: PLC0415 - as above

    return StoredIceberg(path, name)
