"""Apache Spark over logs and queues: `format("rowbus")`, exactly once, without Kafka, a replication slot or a jar.

`pip install "rowbus[spark]"` brings Spark, Arrow and a Java runtime. `session()` starts Spark in this process;
`register(spark)` adds the format to an existing session, `stream(spark, …)` loads a stream.
`schema_of(OrderPlaced)` gives the columns of a message class, for typed rows. `observe(spark)` measures and traces
streaming queries; `keep_running(begin)` begins one again after faults that pass.

Invariant: importing this imports neither Spark nor Arrow; Spark's workers import it for each task they begin with.
"""

from __future__ import annotations

from rowbus.spark.message_schema import schema_of
from rowbus.spark.observation import Observation, observe
from rowbus.spark.pipelines.query_run import Stop, keep_running
from rowbus.spark.session import register, session, stream
from rowbus.spark.sink.janitor import JanitorReport, janitor

__all__ = [
    "JanitorReport",
    "Observation",
    "Stop",
    "janitor",
    "keep_running",
    "observe",
    "register",
    "schema_of",
    "session",
    "stream",
]
