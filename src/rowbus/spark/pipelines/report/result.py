"""The result of a message-flow report: small tables, written as files and as a page.

Invariant: needs no Spark.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from rowbus.spark.pipelines.report.tables import MEANINGS, ReportTables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from rowbus.log.diagnosis import ConsumerState, LogState

PAGE: Final = "report.html"


@dataclass(frozen=True)
class FlowReport(ReportTables):
    """A report: its tables, written as files and as a page."""

    def page(self) -> str:
        """Return the report as one HTML page, which needs nothing else and runs no script."""
        from rowbus.spark.pipelines.report.page import render  # noqa: PLC0415 - most reports are tables

        return render(self)

    def as_json(self) -> dict[str, object]:
        """Return the report for programs: every table as a list of objects."""
        about = {
            "made_at": self.made_at,
            "inputs": list(self.inputs),
            "since": self.since,
            "until": self.until,
            "truncated": sorted(self.truncated),
        }
        return {**about, "tables": {name: self.rows(name) for name in self.tables}}

    def write(self, directory: Path) -> list[Path]:
        """Write the page, and each table as Parquet, CSV and JSON; return the files, the page first.

        The directory is made if it is missing. Tables of an earlier report that this one does not have are removed.
        Raises OSError.
        """
        directory.mkdir(parents=True, exist_ok=True)
        page = directory / PAGE
        page.write_text(self.page(), encoding="utf-8")
        self._remove_old(directory)
        return [page, *(path for name in self.tables for path in self._write_table(directory, name))]

    def _remove_old(self, directory: Path) -> None:
        for name in MEANINGS.keys() - self.tables.keys():
            for ending in ("parquet", "csv", "json"):
                (directory / f"{name}.{ending}").unlink(missing_ok=True)

    def _write_table(self, directory: Path, name: str) -> list[Path]:
        import pyarrow.parquet as pq  # noqa: PLC0415 - only needed here

        parquet, text, objects = (directory / f"{name}.{ending}" for ending in ("parquet", "csv", "json"))
        table, rows = self.tables[name], self.rows(name)
        pq.write_table(table, parquet)  # pyright: ignore[reportUnknownMemberType] - its stubs are partial
        with text.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, table.column_names)
            writer.writeheader()
            writer.writerows({column: _cell(value) for column, value in row.items()} for row in rows)
        objects.write_text(
            f"{json.dumps(rows, default=_plain, ensure_ascii=False, indent=1)}\n", encoding="utf-8"
        )
        return [parquet, text, objects]


def table_of(records: Sequence[ConsumerState] | Sequence[LogState]) -> pa.Table:
    """Return facts gathered by the database layer as an Arrow table; spans in seconds."""
    import pyarrow as pa  # noqa: PLC0415 - only needed here

    return pa.Table.from_pylist([{k: _seconds(v) for k, v in record._asdict().items()} for record in records])


def _seconds(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    return value.total_seconds() if hasattr(value, "total_seconds") else value


def _plain(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


def _cell(value: object) -> object:
    if isinstance(value, list):
        return _defused("; ".join(map(str, cast("list[object]", value))))
    if isinstance(value, datetime):
        return _plain(value)
    return _defused(value) if isinstance(value, str) else value


def _defused(text: str) -> str:
    """Keep a spreadsheet from taking text of a message for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
