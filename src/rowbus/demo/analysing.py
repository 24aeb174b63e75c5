"""Runs Analytics as a program of its own, after the rush, and shows how far it is.

Invariant: when we end, it ends, with its Java; where there is no Spark, we say so and go on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rowbus.demo.analytics import ARCHIVER, REPLICA, REPLICATOR
from rowbus.demo.books import LOG
from rowbus.demo.processes import (
    INTERRUPT_SECONDS,
    EndpointEndedError,
    become_child,
    environment,
    last_line,
    no_interrupt,
)
from rowbus.errors import ConfigurationError
from rowbus.log.consuming.subscription import Subscription
from rowbus.spark.java import provide_java
from rowbus.spark.pipelines.replica_copy import ReplicaPlan, copy_tables

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.console import Console

    from rowbus.database.backends import PostgresDatabase


class Analysed(NamedTuple):
    """Where the results of Analytics lie, and how many seconds it took."""

    archive: str
    report: str
    seconds: float


def missing() -> str | None:
    """Say what is missing for Spark; None if nothing is."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return 'Spark is not installed: pip install "rowbus[spark]"'
    try:
        provide_java()
    except ConfigurationError as error:
        return str(error)
    return None


def prepare(server: PostgresDatabase) -> None:
    """Register Analytics with the log, and make the replica's tables, while the shop is still empty.

    From then on the log retains what Analytics has not read, and all there will be in the replica comes from events.
    """
    with server.session() as session:
        session.run(Subscription(LOG, ARCHIVER).register())
    copy_tables(
        server, server, ReplicaPlan(LOG, REPLICATOR, REPLICATOR, REPLICA, None, again=True), _say_nothing
    )


def _say_nothing(_line: str) -> None:
    """Two empty tables are nothing to talk about."""


def analyse(dsn: str, folder: Path, talk: Console) -> Analysed:
    """Run Analytics to its end; show its lines. Raises EndpointEndedError if it fails."""
    begun, log = time.monotonic(), folder / "analytics.log"
    with _started(dsn, folder, log) as process:
        for line in _lines(process):
            talk.print(line, markup=False, soft_wrap=True)
        code = process.wait()
    if code:
        raise EndpointEndedError(
            f"Analytics has ended with exit code {code}: {last_line(log)} (all of it: {log})",
            endpoint="Analytics",
            log=str(log),
        )
    return Analysed(str(folder / "archive"), str(folder / "report" / "report.html"), time.monotonic() - begun)


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    for line in process.stdout or ():
        yield line.rstrip()


@contextmanager
def _started(dsn: str, folder: Path, log: Path) -> Generator[subprocess.Popen[str]]:
    """Run the program for as long as the block lasts; it, and the Java that it starts, do not outlive it."""
    with ExitStack() as stack:
        errors = stack.enter_context(log.open("ab"))
        with no_interrupt():  # or there is a process that nobody knows
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "rowbus.demo.analytics", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(dsn) | {"SPARK_LOCAL_DIRS": str(folder / "spark")},
                start_new_session=True,
                preexec_fn=partial(become_child, os.getpid()),  # noqa: PLW1509 - unsafe beside threads; this program has none
            )
            stack.callback(_end, process)
        yield process


def _end(process: subprocess.Popen[str]) -> None:
    """Have the program and its Java end; Java takes its temporary files along if it is given the time."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(INTERRUPT_SECONDS)
