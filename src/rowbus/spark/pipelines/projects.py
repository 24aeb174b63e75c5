"""Projects of Spark Declarative Pipelines: create one from the template, run it, reset its tables.

Spark's `spark-pipelines` runs the project in a process of its own. `run_project` adds a catalogue that lasts (without
one Spark forgets the tables after each run), Java, and the release of events that are durable in bronze.

A reset empties a project's tables, so that the next run rebuilds them from their sources. Spark's own full refresh
(4.3) begins a new checkpoint but keeps a Parquet table's `_spark_metadata`, which lists the old batches as written. So
it skips as many new batches, and rows are missing.

Invariants: no existing file is overwritten; only committed events are released; a table that is read from a log is
never emptied, because the log no longer has all its events.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from rowbus.database.location import DATABASE_VARIABLE
from rowbus.errors import ConfigurationError
from rowbus.errors.extras import install_command
from rowbus.spark.checkpoint import read_committed
from rowbus.spark.log_source.offset import VERSION
from rowbus.spark.pipelines.templates import for_shell, in_prose, quoted, unquoted, write_templates
from rowbus.spark.runtimes import provide_java, quick_home
from rowbus.spark.session import LOCAL, LOGGING

SPECIFICATION: Final = "spark-pipeline.yml"
STORAGE: Final = "pipeline-storage"
WAREHOUSE: Final = "spark-warehouse"
_FULL_REFRESH: Final = "--full-refresh"
_NOISE: Final = re.compile(r"WARNING: Using incubator modules")
_SETTING: Final = re.compile(r"^\s*spark\.rowbus\.(\w+):\s*(.+?)\s*$", re.MULTILINE)

Tell = Callable[[str], object]


class ProjectRun(NamedTuple):
    """The exit code of a run, the folder of its tables, and the ticks before which the logs released events."""

    exit_code: int
    warehouse: Path
    released: dict[str, int]


class Rebuild(NamedTuple):
    """A table to be rebuilt: the folder of its rows, and the checkpoints of the flows into it."""

    rows: Path
    progress: Path


def init_project(directory: str | Path, *, log: str, name: str | None = None) -> list[Path]:
    """Write a project for a log into a folder, made if it is missing; return what was written.

    Raises ConfigurationError when a file exists already, or for an invalid name.
    """
    folder = Path(directory).absolute()
    title = name or folder.name
    if not re.fullmatch(r"[A-Za-z_][\w-]*", title):
        raise ConfigurationError(
            f"{title!r} is no name for a project: letters, digits, _ and - only; give --name."
        )
    consumer = f"{title}_bronze"
    facts = {
        "name": title,
        "name_yaml": quoted(title),
        "log_prose": in_prose(log),
        "log_shell": for_shell(log),
        "log_yaml": quoted(log),
        "consumer": consumer,
        "consumer_yaml": quoted(consumer),
        "storage_yaml": quoted((folder / STORAGE).as_uri()),
    }
    return write_templates(files("rowbus.spark.pipelines").joinpath("project"), folder, facts)


def run_project(
    directory: str | Path,
    *,
    dsn: str | None = None,
    cores: str = "2",
    dry_run: bool = False,
    anew: Sequence[str] = (),
    arguments: Sequence[str] = (),
    tell: Tell | None = None,
) -> ProjectRun:
    """Run a project's pipeline once, in a process of its own; `tell` gets its output line by line.

    First the tables in `anew` are emptied, to be rebuilt (not in a dry run); at the end the consumer moves up to what
    bronze has. Raises ConfigurationError for a folder without a project, a table that cannot be rebuilt, and
    `arguments` that ask for Spark's own full refresh, which leaves out rows.
    """
    folder = Path(directory).absolute()
    if not (folder / SPECIFICATION).exists():
        raise ConfigurationError(
            f"{folder} is no project: it has no {SPECIFICATION}; begin one with `rowbus spark init`."
        )
    refuse_full_refresh(arguments)
    program = str(_spark_home() / "bin" / "spark-pipelines")
    command = [program, "--remote", f"local[{cores}]", "dry-run" if dry_run else "run", *arguments]
    if not dry_run:
        empty(folder, anew)
    with (
        _configuration(folder) as settings,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**_environment(dsn), "SPARK_CONF_DIR": settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        for line in process.stdout or ():
            if tell is not None and not _NOISE.match(line):
                tell(line.rstrip("\n"))
    warehouse = folder / WAREHOUSE
    if process.returncode or dry_run:
        return ProjectRun(process.returncode, warehouse, {})
    return ProjectRun(0, warehouse, release_project(folder, dsn))


def release_project(directory: Path, dsn: str | None) -> dict[str, int]:
    """Release events that the project's tables have; return the ticks by log."""
    from rowbus.spark.pipelines.release import release_committed  # noqa: PLC0415 - imports Spark

    text = (directory / SPECIFICATION).read_text(encoding="utf-8")
    consumer = unquoted(dict(_SETTING.findall(text)).get("consumer", ""))
    released: dict[str, int] = {}
    for checkpoint in checkpoints(directory / STORAGE) if consumer else ():
        released |= release_committed(checkpoint, consumer=consumer, dsn=dsn)
    return released


def refuse_full_refresh(arguments: Sequence[str]) -> None:
    """Raise ConfigurationError for arguments with which Spark leaves out rows."""
    for argument in arguments:
        if argument.startswith(_FULL_REFRESH):
            raise ConfigurationError(
                f"{argument} would leave out rows: Spark empties no Parquet table's _spark_metadata, and then takes "
                "new batches for written ones. To make a table anew: rowbus spark run DIR --anew TABLE"
            )


def empty(folder: Path, tables: Sequence[str]) -> None:
    """Delete the rows of these tables and the checkpoints of their flows, or of none if one table is refused.

    Raises ConfigurationError for a table that does not exist or is read from a log.
    """
    for emptied in [_find(folder, table) for table in tables]:
        # Checkpoints without rows would lose rows; rows without checkpoints do not.
        shutil.rmtree(emptied.progress)
        shutil.rmtree(emptied.rows)
        emptied.rows.mkdir()


def checkpoints(storage: Path) -> list[Path]:
    """Return the newest checkpoint of each flow in a pipeline's storage; a full refresh begins another."""
    flows: dict[Path, Path] = {}
    for offsets in (storage / "_checkpoints").glob("**/offsets"):
        found = offsets.parent
        if found.name.isdecimal() and _number(flows.get(found.parent)) < int(found.name):
            flows[found.parent] = found
    return sorted(flows.values())


@contextmanager
def _configuration(folder: Path) -> Generator[str]:
    """Make a folder with Spark's settings: on its command line Spark 4.3 keeps only the last ten."""
    settings = {
        **LOCAL,
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / WAREHOUSE),
    }
    with tempfile.TemporaryDirectory(prefix="rowbus-spark-conf-") as place:
        lines = "".join(f"{name} {value}\n" for name, value in settings.items())
        Path(place, "spark-defaults.conf").write_text(lines, encoding="utf-8")
        shutil.copy(LOGGING, Path(place, "log4j2.properties"))
        yield place


def _environment(dsn: str | None) -> dict[str, str]:
    provide_java()
    database = {} if dsn is None else {DATABASE_VARIABLE: dsn}
    return {
        **os.environ,
        "SPARK_HOME": str(_spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **database,
    }


def _spark_home() -> Path:
    if any(find_spec(name) is None for name in ("pyspark", "grpc", "yaml")):
        raise ConfigurationError(f"Declarative pipelines are not installed: {install_command('pipelines')}")
    return quick_home()


def _find(folder: Path, table: str) -> Rebuild:
    found = [place for place in (folder / STORAGE / "_checkpoints").glob(f"*/*/{table}") if place.is_dir()]
    if Path(table).name != table or len(found) != 1:
        raise ConfigurationError(
            f"{folder} has no streaming table {table} that has run. Materialized views are made anew at each run."
        )
    if any(
        _reads_log(checkpoint) for checkpoint in found[0].glob("*/*") if (checkpoint / "offsets").is_dir()
    ):
        raise ConfigurationError(
            f"{table} is read from a log, which has not all of its events any more; it is not made anew."
        )
    return Rebuild(folder / WAREHOUSE / table, found[0])


def _reads_log(checkpoint: Path) -> bool:
    committed = read_committed(checkpoint)
    return committed is not None and any(offset.get("v") == VERSION for offset in committed.offsets)


def _number(checkpoint: Path | None) -> int:
    return -1 if checkpoint is None else int(checkpoint.name)
