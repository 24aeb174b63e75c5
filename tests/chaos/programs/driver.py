"""A Spark driver: streams the log into the table of effects, exactly once, until it is killed.

`driver.py CHECKPOINT`, with the database in ROWBUS_DATABASE. Started again with its checkpoint, it goes on.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import functions as f

import rowbus.spark
from tests.fixtures.spark import SETTINGS

EVENT = "number integer"
OF_PROCESS = os.getpid()


def main(checkpoint: str) -> None:
    """Run the query."""
    dsn = os.environ["ROWBUS_DATABASE"]
    spark = rowbus.spark.session("chaos", master="local[2]", **SETTINGS)
    events = (
        spark.readStream.format("rowbus")
        .options(dsn=dsn, log="chaos", consumer="driver", startingOffsets="earliest")
        .load()
        .select(f.from_json("ev_data", EVENT).alias("event"))
        .where("event.number >= 0")
    )
    effects = events.select(
        f.lit("event in Spark").alias("stage"),
        f.col("event.number").alias("number"),
        f.lit(OF_PROCESS).alias("process"),
        f.lit(False).alias("again"),  # noqa: FBT003 - a value
    )
    query = (
        effects.writeStream.format("rowbus")
        .options(dsn=dsn, deliver="table", table="effect", exactlyOnce="staged")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
