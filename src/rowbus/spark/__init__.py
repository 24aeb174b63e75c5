"""Apache Spark over logs and queues: `format("rowbus")`, exactly once, without Kafka, a replication slot or a jar.

`pip install "rowbus[spark]"` brings Spark, Arrow and a Java runtime. `session()` starts Spark in this process;
`register(spark)` adds the format to an existing session, `stream(spark, …)` loads a stream.
`schema_of(OrderPlaced)` gives the columns of a message class, for typed rows. `observe(spark)` measures and traces
streaming queries; `keep_running(begin)` begins one again after faults that pass.

Invariant: importing this imports neither Spark, Arrow nor a driver; Spark's workers import it for each task they begin
with. `session` is imported at once: asked for later, it would be the module of this name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.running.lazy_names import lazy_names
from rowbus.spark.session import register, session, stream

if TYPE_CHECKING:
    from rowbus.spark.message_schema import schema_of
    from rowbus.spark.observation import Observation, observe
    from rowbus.spark.pipelines.query_run import Stop, keep_running
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

__getattr__ = lazy_names(
    __name__,
    {
        "JanitorReport": "sink.janitor",
        "Observation": "observation",
        "Stop": "pipelines.query_run",
        "janitor": "sink.janitor",
        "keep_running": "pipelines.query_run",
        "observe": "observation",
        "schema_of": "message_schema",
    },
)
