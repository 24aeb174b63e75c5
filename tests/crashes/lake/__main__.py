"""`python -m tests.crashes.lake`: tables change at random for half an hour, their lake's job is killed 30 times.

    python -m tests.crashes.lake [--minutes 30] [--kills 30] [--formats delta iceberg ducklake replica] [--keep]

Four writers run random transactions on 12 tables of all types: inserts, updates, deletes, changed keys, TRUNCATE,
columns added, renamed, dropped and widened, other primary keys; some are rolled back, some open for a while. A fifth
attaches, detaches and empties partitions, and renames tables, swaps them and makes them anew. Each of their sessions
has settings of its own (date style, zone, digits …). Meanwhile one job of each format follows, and in turn are killed:
its driver, its JVM, a Python worker, the server, the ticker, all sessions. A sixth writes orders, payments and what is
open, which are in balance after each transaction, and so have to be in every snapshot of a DuckLake. In the end
`rowbus spark compare` must say that all tables are equal, what Spark and polars (or DuckDB) read must be the database's
rows, and no job may have ended by itself. `--seed` repeats each writer's statements. Exit code 1: something is wrong.
docs/reliability.md has the results.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import rowbus.spark
from tests.chaos.server import Server, open_folder
from tests.crashes.lake.job import DUCKLAKE, REPLICA
from tests.crashes.lake.reading import Reader, with_duckdb, with_polars, with_spark
from tests.crashes.lake.scene import MORE, SETTINGS, VICTIMS, Plan, Scene
from tests.fixtures.spark import SETTINGS as LIGHT_SPARK

FORMATS = ("delta", "iceberg", DUCKLAKE, REPLICA)
HEAD = (
    "| formats | tables | minutes | kills | starts | committed | altering | rolled back | rows | wrong | on |"
)


def run(folder: Path, plan: Plan) -> int:
    """Run it on a server of its own, say what was seen, and give the exit code."""
    server = Server(folder / "server", settings=SETTINGS)
    server.initialise()
    server.start()
    scene = Scene(folder, server, plan)
    try:
        scene.run()
        scene.finish()
        wrong = scene.wrong(readers_of(scene, folder))
        say(HEAD)
        say(summary(scene, len(wrong)))
    finally:
        scene.end()
        server.stop()
        for job in scene.jobs:
            say(f"{job.form}: most memory in MB {job.memory}, {job.starts} starts, kills {job.kills}")
    for sentence in wrong:
        say(f"WRONG: {sentence}")
    return int(bool(wrong))


def readers_of(scene: Scene, folder: Path) -> dict[str, Reader]:
    """Give what reads each lake as a user does."""
    by_duckdb = {f"{DUCKLAKE} by DuckDB": with_duckdb(scene.dsn)}
    lakes = [form for form in scene.plan.formats if form not in {DUCKLAKE, REPLICA}]
    if not lakes:
        return by_duckdb
    spark = rowbus.spark.session("lake", master="local[2]", warehouse=folder / "warehouse", **LIGHT_SPARK)
    by_spark = {f"{form} by Spark": with_spark(form, spark) for form in lakes}
    return by_duckdb | by_spark | {f"{form} by polars": with_polars(form) for form in lakes}


def summary(scene: Scene, wrong: int) -> str:
    """Give the run's line for docs/reliability.md."""
    plan, starts = scene.plan, sum(job.starts for job in scene.jobs)
    kills = sum(sum(job.kills.values()) for job in scene.jobs)
    cells = (
        *(" ".join(plan.formats), plan.tables, f"{plan.seconds / 60:g}", kills, starts),
        *(f"{scene.committed:,}", f"{scene.altered:,}"),
    )
    more = (f"{scene.rolled_back:,}", f"{scene.rows():,}", wrong)
    return "| " + " | ".join(map(str, (*cells, *more, time.strftime("%Y-%m-%d")))) + " |"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Do what the command line says, and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes.lake", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long writers write")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument(
        "--altering", type=float, default=0.01, help="share of the transactions that alter a table"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder, with the lake and what programs said"
    )
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rowbus-lake-"))
    say(f"seed {given.seed}, in {folder}")
    plan = Plan(
        *(given.minutes * 60, given.kills, given.tables),
        formats=tuple(given.formats),
        altering=given.altering,
        victims=VICTIMS + MORE,
        seed=given.seed,
    )
    try:
        return run(open_folder(folder), plan)
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
