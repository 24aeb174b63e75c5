"""Ready pipelines over logs and queues, to run or to copy.

| function | command | |
| --- | --- | --- |
| `archive` | `rowbus spark archive` | logs → Parquet or Delta, each event once |
| `compact` | `rowbus spark compact` | a Delta archive's small files → few, each event once |
| `replicate` | `rowbus spark replicate` | captured tables → the same tables elsewhere |
| `replay` | `rowbus spark replay` | archived events → a log or a queue, once |
| `report_message_flow` | `rowbus spark report` | how messages flow: tables, and a page with plots |
| `release_committed`, `ReleaseListener` | `rowbus spark release` | releases a checkpoint's durable events |
| `init_project`, `run_project` | `rowbus spark init`, `run` | a project of Spark Declarative Pipelines to start from |

Invariant: importing this imports neither Spark nor Arrow; each function is loaded when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.running.lazy_names import lazy_names

if TYPE_CHECKING:
    from rowbus.spark.pipelines.event_replay import Choice, ReplayReport, replay
    from rowbus.spark.pipelines.lake_tables import LakeReport, lake
    from rowbus.spark.pipelines.log_archive import ArchiveReport, CompactionReport, archive, compact
    from rowbus.spark.pipelines.projects import init_project, run_project
    from rowbus.spark.pipelines.release import ReleaseListener, release_committed
    from rowbus.spark.pipelines.replication import ReplicaReport, replicate
    from rowbus.spark.pipelines.report.report import report_message_flow

__all__ = [
    "ArchiveReport",
    "Choice",
    "CompactionReport",
    "LakeReport",
    "ReleaseListener",
    "ReplayReport",
    "ReplicaReport",
    "archive",
    "compact",
    "init_project",
    "lake",
    "release_committed",
    "replay",
    "replicate",
    "report_message_flow",
    "run_project",
]

_MODULES = {
    "ArchiveReport": "log_archive",
    "Choice": "event_replay",
    "CompactionReport": "log_archive",
    "LakeReport": "lake_tables",
    "ReleaseListener": "release",
    "ReplayReport": "event_replay",
    "ReplicaReport": "replication",
    "archive": "log_archive",
    "compact": "log_archive",
    "init_project": "projects",
    "lake": "lake_tables",
    "release_committed": "release",
    "replay": "event_replay",
    "replicate": "replication",
    "report_message_flow": "report.report",
    "run_project": "projects",
}


__getattr__ = lazy_names(__name__, _MODULES)
