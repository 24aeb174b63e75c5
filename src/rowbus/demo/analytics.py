"""Analytics: reads the shop's log with Spark, outside the shop.

Archives the log as Parquet, replicates the captured tables from it, and reports on the flow of messages. Each continues
where it stopped, so this program could run every night. For the proof, it also brings the archive back into a
table beside the log.

Invariant: it reads the log, the archive and the error queue alone. The replica's rows come from events.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import rowbus.spark
from rowbus.database.location import resolve_dsn
from rowbus.demo.books import LOG
from rowbus.demo.messages import SCHEMA
from rowbus.spark import pipelines

REPLICA = f"{SCHEMA}_replica"
ARCHIVER, REPLICATOR = "archive", SCHEMA  # the consumers of the log; the second names the replica, too
EVENT = (
    "ev_id",
    "ev_time",
    "ev_txid",
    "ev_retry",
    "ev_type",
    "ev_data",
    *(f"ev_extra{n}" for n in range(1, 5)),
)
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",  # thousands of rows, not millions
}


def main() -> None:
    """Run everything in the folder named on the command line; say on standard output how far it is."""
    begun = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun:4.0f} s  {line}", flush=True)  # noqa: T201 - the parent shows it

    run(Path(sys.argv[1]), tell)


def run(folder: Path, tell: Callable[[str], None]) -> None:
    """Archive, replicate, report, and bring the archive back; keep everything in the folder."""
    dsn, archived = resolve_dsn(), folder / "archive"
    tell("Spark is starting")
    spark = rowbus.spark.session("rowbus demo", master="local[2]", warehouse=folder / "warehouse", **SETTINGS)
    tell(f"Spark {spark.version} runs, and reads the log {LOG}")

    kept = pipelines.archive(spark, LOG, archived, dsn=dsn, consumer=ARCHIVER)
    tell(f"archived {kept.events:,} events")

    copies = pipelines.replicate(
        spark, LOG, checkpoint=folder / "replica", source=dsn, schema=REPLICA, consumer=REPLICATOR
    )
    tell(f"applied {copies.events:,} events to {' and '.join(copies.tables.values())}")

    flow = pipelines.report_message_flow(spark, queues=["error"], archives=[archived], dsn=dsn, schema=SCHEMA)
    flow.write(folder / "report")
    tell("reported on the flow of messages and events")

    events = spark.read.parquet(str(archived)).select(*EVENT)
    back = {"deliver": "table", "table": f"{SCHEMA}.archived", "dsn": dsn}
    events.write.format("rowbus").mode("append").options(**back).save()
    tell("brought the archive back for comparison")
    spark.stop()


if __name__ == "__main__":
    main()
