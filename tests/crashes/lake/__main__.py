"""`python -m tests.crashes.lake`: tables change at random for half an hour, their lake's job is killed 30 times.

    python -m tests.crashes.lake [--minutes 30] [--kills 30] [--format delta|iceberg] [--seed 1] [--keep]

Four writers run random transactions on 12 tables of all types: inserts, updates, deletes, changed keys, TRUNCATE,
columns added, renamed, dropped and widened, other primary keys; some are rolled back, some open for a while. Meanwhile
`rowbus spark lake --follow` is killed in turn: its driver, its JVM, a Python worker, the server. In the end
`rowbus spark compare` must say that all tables are equal, and what Spark and polars read must be the database's rows.
The seed repeats each writer's statements. Exit code 1: something is wrong. docs/reliability.md has the results.
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
from tests.crashes.lake.reading import with_polars, with_spark
from tests.crashes.lake.scene import SETTINGS, Plan, Scene
from tests.fixtures.spark import SETTINGS as LIGHT_SPARK

HEAD = "| format | tables | minutes | kills | starts | committed | rolled back | rows | wrong | on |"


def run(folder: Path, plan: Plan) -> int:
    """Run it on a server of its own, say what was seen, and give the exit code."""
    server = Server(folder / "server", settings=SETTINGS)
    server.initialise()
    server.start()
    scene = Scene(folder, server, plan)
    try:
        scene.run()
        scene.finish()
        spark = rowbus.spark.session("lake", master="local[2]", warehouse=folder / "warehouse", **LIGHT_SPARK)
        readers = {"Spark": with_spark(plan.format, spark), "polars": with_polars(plan.format)}
        wrong = scene.wrong(readers)
        spark.stop()
        say(HEAD)
        say(summary(scene, len(wrong)))
    finally:
        scene.end()
        server.stop()
    for sentence in wrong:
        say(f"WRONG: {sentence}")
    return int(bool(wrong))


def summary(scene: Scene, wrong: int) -> str:
    """Give the run's line for docs/reliability.md."""
    plan, job = scene.plan, scene.job
    kills = f"{sum(job.kills.values())} ({', '.join(f'{name} {count}' for name, count in job.kills.items())})"
    cells = (plan.format, plan.tables, f"{plan.seconds / 60:g}", kills, job.starts, f"{scene.committed:,}")
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
    parser.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder, with the lake and what programs said"
    )
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rowbus-lake-"))
    say(f"seed {given.seed}, in {folder}")
    plan = Plan(given.minutes * 60, given.kills, given.tables, format=given.format, seed=given.seed)
    try:
        return run(open_folder(folder), plan)
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
