"""Arrow into COPY: every type arrives, with pgpq and without."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest

from rowbus.database.postgresql import arrow_copy
from rowbus.database.postgresql.arrow_copy import Rows, copy_rows
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import Query
from rowbus.errors import ConfigurationError, StorageError

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)
ID = UUID("6ee4b1b1-93f6-4f4c-9a52-17d3e02b1a29")
NAIVE = MOMENT.replace(tzinfo=None)

KINDS = [
    (pa.string(), "text", "ä\t\\N", "ä\t\\N"),
    (pa.large_string(), "text", "x", "x"),
    (pa.bool_(), "bool", True, True),
    (pa.int8(), "int2", -3, -3),
    (pa.int16(), "int2", -300, -300),
    (pa.int32(), "int4", -70_000, -70_000),
    (pa.int64(), "int8", 2**62, 2**62),
    (pa.float32(), "float4", 0.5, 0.5),
    (pa.float64(), "float8", 0.1, 0.1),
    (pa.binary(), "bytea", b"\x00\xff", b"\x00\xff"),
    (pa.date32(), "date", date(1969, 2, 3), date(1969, 2, 3)),
    (pa.timestamp("us", "UTC"), "timestamptz", MOMENT, MOMENT),
    (pa.timestamp("us"), "timestamp", NAIVE, NAIVE),
    (pa.decimal128(38, 2), "numeric", Decimal("-1234567890123456789.10"), Decimal("-1234567890123456789.10")),
    (pa.decimal128(5, 5), "numeric", Decimal("0.00001"), Decimal("0.00001")),
    (pa.binary(16), "uuid", ID.bytes, ID),
    (pa.list_(pa.string()), "text[]", ["a", None, ""], ["a", None, ""]),
    (pa.list_(pa.int64()), "int8[]", [], []),
    (pa.list_(pa.timestamp("us", "UTC")), "timestamp[]", [MOMENT], [NAIVE]),
    (pa.list_(pa.list_(pa.int32())), "text", [[1], [2]], "[[1],[2]]"),
    (pa.struct([("a", pa.int32())]), "text", {"a": 1}, '{"a":1}'),
    (pa.map_(pa.string(), pa.string()), "text", [("k", "v")], '{"k":"v"}'),
]


@pytest.fixture(params=["pgpq", "psycopg"])
def _encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "psycopg":
        monkeypatch.setattr(arrow_copy, "_Encoder", None)


def copy(dsn: str, rows: Rows) -> int:
    text = b"copy kinds from stdin (format binary)"
    with Database(dsn).session() as session:
        return copy_rows(session, Query(text, text, (), "Failed", prepare=False), rows)


@pytest.mark.usefixtures("_encoder")
def test_values_of_every_type_arrive_as_they_are(database: str) -> None:
    names = [f"c{number}" for number, _ in enumerate(KINDS)]
    arrays = [pa.array([value, None], kind) for kind, _, value, _ in KINDS]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    rows = Rows(batch.schema, [batch, batch])
    assert rows.types == [there for _, there, _, _ in KINDS]
    with psycopg.connect(database, autocommit=True) as connection:
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, rows.types, strict=True))
        connection.execute(f"set timezone to 'UTC'; create table kinds ({columns})".encode())
        assert copy(database, rows) == 4
        full, empty, *_ = connection.execute("select * from kinds").fetchall()
    assert list(full) == [expected for _, _, _, expected in KINDS]
    assert set(empty) == {None}


@pytest.mark.usefixtures("_encoder")
def test_text_that_postgresql_cannot_hold_is_refused(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create table kinds (c text)")
        batch = pa.record_batch({"c": pa.array(["fine", "a\x00b"])})
        with pytest.raises(StorageError):
            copy(database, Rows(batch.schema, [batch]))
        assert connection.execute("select count(*) from kinds").fetchone() == (0,)


def test_bytes_that_are_no_text_are_refused_where_text_is_wanted() -> None:
    with pytest.raises(ConfigurationError, match="text"):
        arrow_copy.as_text(pa.array([b"\xff"]))
