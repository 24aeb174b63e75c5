"""The peak memory of a copy, of staging and of a merge of texts of 1 MB, each in a process of its own, without Spark.

python -m tests.spark.lake.memory delta|iceberg|ducklake [rows] [changes]
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
from typing import cast

import pyarrow as pa

from rowbus.spark.captured import SourceTable
from rowbus.spark.lake.table import AppTransaction
from rowbus.spark.lake.tables.folder import Copy, LakeFolder, TableFormat
from rowbus.spark.lake.tables.followed_table import COPY, FollowedTable
from rowbus.spark.lake.tables.writer import StagedFiles, TablesSettings, TablesWriter, staged_changes

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
)


def text() -> str:
    return base64.b64encode(os.urandom(750_000)).decode()


def event(number: int, rows: int) -> pa.RecordBatch:
    row = json.dumps({"id": number * 3 % (rows + rows // 4), "text": text()})
    values = (number, 5, TYPE, row, "public.texts", row if number % 2 else None)
    arrays = [pa.array([value], kind) for value, kind in zip(values, EVENT.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(EVENT))


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


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[2:]] or [256, 100]
    with tempfile.TemporaryDirectory() as made:
        measure(Path(made), cast("TableFormat", sys.argv[1]), numbers[0], numbers[1])
