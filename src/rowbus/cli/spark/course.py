"""A pipeline as a command runs it: the options that commands share, how they start Spark, and its progress.

Invariants: progress goes to the standard error; the standard output has the result; Spark is told to keep to this
machine; a cluster's users call the functions of `rowbus.spark.pipelines`.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rowbus.cli.options import check_database
from rowbus.errors.strangers import printable
from rowbus.running.telemetry.listener import address_of

if TYPE_CHECKING:
    from rowbus.spark.pipelines.query_run import Progress, Stop

LINE_SECONDS = 5.0


class Display(NamedTuple):
    """Shows progress, and lines about single steps."""

    watch: Callable[[Progress], object]
    tell: Callable[[str], object]


class Running(NamedTuple):
    """The hold on a query that can be ended."""

    watch: Callable[[Progress], object]
    tell: Callable[[str], object]
    stop: Stop


@contextmanager
def running(what: str) -> Generator[Running]:
    """Show progress for as long as the block lasts, and have SIGTERM and Ctrl-C end the query, not the process."""
    from rowbus.spark.pipelines.query_run import Stop

    stop = Stop()
    with display(what) as shown, ended_by_signals(stop):
        yield Running(shown.watch, shown.tell, stop)


@contextmanager
def display(what: str) -> Generator[Display]:
    """Show progress for as long as the block lasts."""
    if not sys.stderr.isatty():
        yield Display(_Lines(what).show, tell)
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(f"{what}: Spark is starting") as status:

        def watch(progress: Progress) -> None:
            status.update(f"{what}: {in_words(progress)}")

        def say_above(line: str) -> None:
            console.print(printable(line), markup=False, highlight=False)

        yield Display(watch, say_above)


def tell(line: str) -> None:
    """Say one thing about a step."""
    typer.echo(printable(line), err=True)


def in_words(progress: Progress) -> str:
    """Say how far a query is."""
    words = (
        f"{progress.batches} {'batch' if progress.batches == 1 else 'batches'}, {progress.events:,} events"
    )
    if progress.ticks_behind:
        words += f", {progress.ticks_behind} ticks ({progress.seconds_behind or 0:.0f} s) behind"
    return words


@contextmanager
def ended_by_signals(stop: Stop) -> Generator[None]:
    """Have SIGTERM and Ctrl-C call `stop`; once more, and the process ends at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(*_anything: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
        stop()

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Lines:
    """A line every few seconds, and one at the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = 0.0

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_SECONDS
            tell(f"{self._what}: {in_words(progress)}")


Consumer = Annotated[
    str,
    typer.Option(
        "--consumer",
        metavar="NAME",
        help="The consumer under whose name the logs retain what is not done yet; one for each pipeline.",
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what comes, until SIGTERM or Ctrl-C.")
]
MaxEvents = Annotated[
    int | None,
    typer.Option("--max-events", metavar="N", min=1, help="About how many events one batch takes at most."),
]
MaxBytes = Annotated[
    int | None,
    typer.Option(
        "--max-bytes",
        metavar="MB",
        min=1,
        help="About how many MB of events one batch takes at most, which bounds the memory of a merge. Lakes and "
        "replicas take whole ticks.",
    ),
]
Resync = Annotated[
    list[str] | None,
    typer.Option(
        "--resync",
        metavar="PATTERN",
        help="Copy this table anew, as shop.orders or 'shop.*', and go on; may be repeated. While the job runs, in "
        "another terminal. "
        "'*': all of them, also after the database was restored.",
    ),
]
MEGABYTE = 2**20


def in_bytes(megabytes: int | None) -> int | None:
    """Return the bytes of a limit; None for none."""
    return megabytes and megabytes * MEGABYTE


ReadDatabase = Annotated[
    str | None,
    typer.Option(
        "--read-database",
        metavar="DSN",
        help="A read-only replica to read the events from.",
        callback=check_database,
    ),
]
Memory = Annotated[
    str,
    typer.Option("--memory", metavar="SIZE", help="Memory of Spark, as 2g; takes effect in this process."),
]
Cores = Annotated[
    str, typer.Option("--cores", metavar="N", help="How many tasks run at once; * for one on each core.")
]
DEFAULT_MEMORY = "1g"


def start_spark(name: str, *, cores: str, memory: str, metrics: str | None = None) -> Any:  # noqa: ANN401 - Spark's types are known to its layer alone
    """Start Spark in this process, and return its session; serve measurements of its queries there, if wanted."""
    if metrics is not None:
        address_of(metrics)  # what is no address is refused at once
    from rowbus.spark import observe, session
    from rowbus.spark.pipelines.policy import explain

    settings = {"spark.driver.memory": memory}
    if not logging.getLogger("rowbus.cli").isEnabledFor(logging.DEBUG):
        settings["spark.log.level"] = "OFF"  # ninety lines to say what our error says in one; -v shows them
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # as above, where Java has ended
    # While Java starts, Ctrl-C ends the process: a KeyboardInterrupt would leave that running for ever.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        spark = session(f"rowbus spark {name}", master=f"local[{cores},4]", **settings)
    except Exception as error:
        raise explain(error) from error
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if url := observe(spark, metrics=metrics).url:
        tell(f"Metrics and health are at {url}")
    return spark
