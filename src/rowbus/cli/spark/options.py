"""Options that several `rowbus spark` commands share, and how they start Spark.

Invariant: Spark is told to keep to this machine; a cluster's users call the functions of `rowbus.spark.pipelines`.
"""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer

from rowbus.cli.spark.progress import tell
from rowbus.running.telemetry.listener import address_of

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
ReadDatabase = Annotated[
    str | None,
    typer.Option("--read-database", metavar="DSN", help="A read-only replica to read the events from."),
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
    from rowbus.spark import observe, session  # noqa: PLC0415 - `--help` shall be quick, and work without Spark

    settings = {"spark.driver.memory": memory}
    if not logging.getLogger("rowbus.cli").isEnabledFor(logging.DEBUG):
        settings["spark.log.level"] = "OFF"  # ninety lines to say what our error says in one; -v shows them
    spark = session(f"rowbus spark {name}", master=f"local[{cores}]", **settings)
    if url := observe(spark, metrics=metrics).url:
        tell(f"Metrics and health are at {url}")
    return spark
