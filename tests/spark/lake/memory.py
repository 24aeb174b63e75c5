"""The peak memory of a copy, of staging and of a merge of texts of 1 MB, each in a process of its own, without Spark.

python -m tests.spark.lake.memory delta|iceberg|ducklake|replica [rows] [changes]
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pyarrow as pa

from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from rowbus.spark.captured import SourceTable
from rowbus.spark.lake.table import AppTransaction
from rowbus.spark.lake.tables.folder import Copy, LakeFolder, TableFormat
from rowbus.spark.lake.tables.followed_table import COPY, FollowedTable
from rowbus.spark.lake.tables.writer import StagedFiles, TablesSettings, TablesWriter, staged_changes
from rowbus.spark.pipelines.replica import ReplicaPlan, copy_tables
from rowbus.spark.schema import ensure
from rowbus.spark.sink.commit.batch import BatchKey, Task, new_writer
from rowbus.spark.sink.commit.task import TaskAttempt, stage_rows
from rowbus.spark.sink.targets.changes import ChangesTarget
from tests.chaos.server import Server

_arrow: Any = pa  # its stubs lack this function
TOGETHER = 8
TYPE = '{"op":"UPDATE","table":["public","texts"],"pkey":["id"]}'
EVENT: dict[str, pa.DataType] = {
    "ev_id": pa.int64(),
    "ev_txid": pa.int64(),
    "ev_type": pa.string(),
    "ev_data": pa.string(),
    "ev_extra1": pa.string(),
    "ev_extra2": pa.string(),
}

SOURCE = SourceTable(
    name="public.texts",
    format="json",
    arguments=[],
    key=["id"],
    columns=["id", "text"],
    types=["int4", "text"],
    modifiers=[-1, -1],
    bare=[True, False],
    virtual=[],
    shape="shape",
    reading="",
    form="",
    version="",
    versioning="",
    is_keyed=True,
    is_deferrable=False,
)


def text() -> str:
    return base64.b64encode(os.urandom(750_000)).decode()


def event(number: int, rows: int) -> pa.RecordBatch:
    row = json.dumps({"id": number * 3 % (rows + rows // 4), "text": text()})
    values = (number, 5, TYPE, row, "public.texts", row if number % 2 else None)
    arrays = [pa.array([value], kind) for value, kind in zip(values, EVENT.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(EVENT))


def together(first: int, rows: int) -> pa.RecordBatch:
    """Give events in one batch, as the log's source does of 16 MB."""
    found: pa.RecordBatch = _arrow.concat_batches([event(first + each, rows) for each in range(TOGETHER)])
    return found


def alone(what: str, work: Callable[[], None]) -> None:
    """Do something in a process of its own, and tell its peak memory."""
    if os.fork():
        os.wait()
        return
    work()
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    print(f"{what}: {int(peak) // 1024} MB", flush=True)  # noqa: T201 - a program's output
    os._exit(0)


def measure(folder: Path, kind: TableFormat, rows: int, changes: int) -> None:
    lake, staged = LakeFolder(folder), folder / "staged"
    lake.settle(kind)
    table = FollowedTable(lake, "", SOURCE)
    settings = TablesSettings(lake.path, "changes", ("*",), "", kind)
    schema = table.schema([])

    def held() -> Iterator[pa.RecordBatch]:
        for number in range(rows):
            yield pa.RecordBatch.from_arrays(
                [pa.array([number], pa.int32()), pa.array([text()])], schema=schema
            )

    def copy() -> None:
        table.stored.replace(schema, held(), AppTransaction(COPY, 1))
        lake.note_copy("public.texts", 1, Copy("1:1:", "shape", [], key=["id"]), instead_of=0)

    def stage() -> None:
        batches = (event(number, rows) for number in range(changes))
        staged.write_bytes(pickle.dumps(TablesWriter(settings).stage("query", "task", batches)))

    def merge() -> None:
        found: StagedFiles = pickle.loads(staged.read_bytes())  # noqa: S301 - our own
        told = staged_changes(settings.staged, found.files)["public.texts"]
        table.apply(told, AppTransaction("query", 7))

    alone("copy", copy)
    alone("stage", stage)
    alone("merge", merge)


def measure_replica(folder: Path, rows: int, changes: int) -> None:
    """Measure a replica on a server of its own, whose processes are not counted."""
    target: Any = ChangesTarget("copy")
    key, task = BatchKey("query", "replica:copy", "query", 0), Task(0, 1, "query", 0)
    plan, staged = ReplicaPlan("changes", "copier", "copy", "copy", None), folder / "staged"
    server = Server(folder / "server")
    server.initialise()
    server.start()
    database = Database(server.dsn("postgres"))

    def copy() -> None:
        copy_tables(database, database, plan, lambda _line: None)

    def stage() -> None:
        batches = (together(first, rows) for first in range(0, changes, TOGETHER))
        with database.session() as session:
            attempt = TaskAttempt(target, key, new_writer(), task)
            staged.write_bytes(pickle.dumps(stage_rows(session, attempt, batches, pa.schema(EVENT))))

    def merge() -> None:
        with database.session() as session, session.transaction():
            target.publish(session, [pickle.loads(staged.read_bytes())], key)  # noqa: S301 - our own

    try:
        with database.session() as session:
            install_now(session)
            ensure(session)
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("create table texts (id int primary key, text text)")
            connection.execute("select pgq.create_queue('changes')")
            connection.execute("select pgq.capture_table('texts', 'changes')")
            for number in range(rows):
                connection.execute("insert into texts values (%s, %s)", [number, text()])
        for what, work in (("copy", copy), ("stage", stage), ("merge", merge)):
            alone(what, work)
    finally:
        server.stop()


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[2:]] or [256, 100]
    with tempfile.TemporaryDirectory() as made:
        if sys.argv[1] == "replica":
            measure_replica(Path(made), *numbers)
        else:
            measure(Path(made), cast("TableFormat", sys.argv[1]), *numbers)
