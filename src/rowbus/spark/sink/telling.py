"""Measures and traces what Spark's driver commits, where its program wants that.

Invariant: runs beside the driver; a commit that fails is not counted.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rowbus.running.telemetry.instruments import instruments
from rowbus.running.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def telling_of_commit(target: str, number: int) -> Generator[None]:
    """Tell of the commit of a micro-batch that is made within."""
    spans, measured = tracing(), instruments()
    facts: dict[str, str | int] = {"messaging.destination.name": target, "rowbus.spark.batch": number}
    with nullcontext() if spans is None else spans.working(f"commit {target}", facts):
        yield
    if measured is not None:
        measured.spark_commits.add((target,))
