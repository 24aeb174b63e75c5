"""Iceberg's catalogue in PostgreSQL: tables of one database, each in its folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import types as spark

from rowbus.errors import ConfigurationError
from rowbus.spark.lake import writer as lake

COLUMNS = spark.StructType([spark.StructField("number", spark.LongType())])
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves


def test_tables_are_found_through_a_database_and_batches_are_there_once(
    database: str, tmp_path: Path
) -> None:
    facts = conninfo_to_dict(database)
    catalog = (
        f"postgresql://{facts['user']}@/{facts['dbname']}?host={facts['host']}&port={facts.get('port', 5432)}"
    )
    for name in ("orders", "orders", "payments"):
        write(tmp_path / name, catalog, f"shop.{name}")

    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - slow to import

    found = SqlCatalog("rowbus", uri=catalog.replace("postgresql:", "postgresql+psycopg:"))
    tables = {name: found.load_table(f"shop.{name}").scan().to_arrow() for name in ("orders", "payments")}
    found.close()

    assert {name: table.column("number").to_pylist() for name, table in tables.items()} == {
        "orders": [7],
        "payments": [7],
    }


def write(path: Path, catalog: str, table: str) -> None:
    options = {
        "deliver": "iceberg",
        "path": str(path),
        "catalog": catalog,
        "table": table,
        "txnappid": "query",
    }
    writer = lake.stream_writer(options, COLUMNS, False)  # noqa: FBT003 - as Spark calls it
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict({"number": [7]})]))], 0)


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"knows no catalogue catalog\.db.*sqlite:///path"):
        write(tmp_path, "catalog.db", "shop.orders")
