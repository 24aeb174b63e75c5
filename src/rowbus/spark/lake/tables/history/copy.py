"""The news of a copy of a table for its versions: which rows are otherwise than the current versions say.

Where rows can be compared, only those that differ end and begin a version: a join of both tables finds them, without
reading either into memory. Else (no key, another key, another type) all current versions end, and all rows begin one.

Invariant: after it, the current versions are the rows of the copy.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder

from rowbus.spark.lake.delta import StoredDelta, data_set
from rowbus.spark.lake.tables.history.columns import (
    BEGINS,
    DOES,
    END,
    ENDS,
    EVENT,
    ORIGIN,
    VALID_FROM,
    VALID_TO,
    constant,
    fitted,
    kinds,
    of_table,
)
from rowbus.spark.lake.tables.history.timeline import COPY, Mark
from rowbus.spark.lake.tables.net_changes import TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from rowbus.spark.captured import SourceTable
    from rowbus.spark.lake.table import AppTransaction
    from rowbus.spark.lake.tables.history.merge import HistoryMerge

_compute: Any = pc  # its stubs lack many functions


def begin_versions(path: str, table: str, moment: datetime, batch: AppTransaction) -> None:
    """Make the table of versions, from the rows of the first copy."""
    rows = data_set(table)
    schema = pa.schema(kinds(rows.schema) | kinds(ORIGIN))
    batches = (_begun(batch.columns, schema, moment) for batch in rows.to_batches())
    StoredDelta(path).replace(schema, batches, batch)


def tell_copy(
    merge: HistoryMerge,
    table: str,
    source: SourceTable,
    moment: datetime,
    commit: CommitProperties,
    *,
    comparable: bool,
) -> None:
    """Write the versions that a copy ends and begins, in one commit."""
    if comparable:
        with _spooled(_differing(merge, table, source.columns, moment), merge.rows) as differing:
            merge.merge(differing, commit)
        return
    rows = data_set(table)
    begun = (
        _begun(fitted(batch, of_table(merge.schema), source), merge.rows, moment)
        for batch in rows.to_batches()
    )
    merge.begin_anew(pa.RecordBatchReader.from_batches(merge.rows, begun), Mark(moment, COPY), commit)


@contextmanager
def _spooled(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Generator[pa.RecordBatchReader]:
    """Put rows aside in a file: the library cannot run a query while it takes a merge's rows."""
    with TemporaryFile() as file:
        with pa.ipc.new_stream(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.seek(0)
        yield pa.ipc.open_stream(file)


def _begun(columns: Sequence[Any], schema: pa.Schema, moment: datetime) -> pa.RecordBatch:
    """Return rows as versions that a copy begins."""
    rows = len(columns[0])
    told = {VALID_FROM: moment, "operation": COPY, DOES: BEGINS}
    fields = list(kinds(schema).items())[len(columns) :]
    origin = [constant(told.get(name), kind, rows) for name, kind in fields]
    return pa.RecordBatch.from_arrays([*columns, *origin], schema=schema)


def _differing(
    merge: HistoryMerge, table: str, names: Sequence[str], moment: datetime
) -> Iterator[pa.RecordBatch]:
    """Give the ends and the begins of the rows that differ."""
    query = QueryBuilder().register("copied", DeltaTable(table)).register("held", DeltaTable(merge.path))
    for found in pa.RecordBatchReader.from_stream(query.execute(_difference(names, merge.key))):
        rows: Any = found
        begun, now = rows.column("h_from").cast(pa.int64()), pa.scalar(moment, TIMES).cast(pa.int64())
        times = _compute.max_element_wise(begun, now).cast(TIMES)
        begins = {name: f"c{place}" for place, name in enumerate(names)}
        yield _versions(merge, rows, begins, {VALID_FROM: times}, BEGINS)
        ends = {name: f"k{place}" for place, name in enumerate(merge.key)}
        held = {VALID_FROM: rows.column("h_from"), EVENT: rows.column("h_event"), VALID_TO: times}
        yield _versions(merge, rows, ends, held, ENDS)


def _versions(
    merge: HistoryMerge,
    rows: Any,  # noqa: ANN401 - partial stubs
    names: dict[str, str],
    told: dict[str, Any],
    does: str,
) -> pa.RecordBatch:
    """Return the rows of a merge: versions that end, or that begin."""
    values = {DOES: does, (END[1] if does == ENDS else "operation"): COPY}
    arrays: list[Any] = []
    for name, kind in kinds(merge.rows).items():
        if name in names or name in told:
            arrays.append((told[name] if name in told else rows.column(names[name])).cast(kind))
        else:
            arrays.append(constant(values.get(name), kind, rows.num_rows))
    versions: Any = pa.RecordBatch.from_arrays(arrays, schema=merge.rows)
    kept: pa.RecordBatch = versions.filter(
        _compute.is_valid(rows.column("h_from" if does == ENDS else "c_key"))
    )
    return kept


def _difference(names: Sequence[str], key: Sequence[str]) -> str:
    """Return the query for the rows that differ; `c` is the copy, `h` what the current versions say."""
    begins = ", ".join(f"c.{_name(name)} as c{place}" for place, name in enumerate(names))
    ends = ", ".join(f"h.{_name(name)} as k{place}" for place, name in enumerate(key))
    same = " and ".join(f"c.{_name(name)} = h.{_name(name)}" for name in key)
    other = " or ".join(f"(c.{_name(name)} is distinct from h.{_name(name)})" for name in names)
    first = _name(key[0])
    return (
        f"select {begins}, {ends}, c.{first} as c_key, h.{VALID_FROM} as h_from, h.{EVENT} as h_event "  # noqa: S608  # SQL for a reader: DataFusion, over the files of a lake; names are quoted
        f"from copied as c full outer join (select * from held where {VALID_TO} is null) as h on {same} "
        f"where c.{first} is null or h.{first} is null or {other}"
    )


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
