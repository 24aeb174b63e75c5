"""`rowbus spark report` on a real database: queues, logs, archives, and what they have in common."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import typer
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

import rowbus
from rowbus.cli.spark import report as spark_report
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError
from rowbus.log import catalog as log_catalog
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from tests.spark.report.conftest import EVENTS
from tests.spark.report.flow import BEGIN, Sent, Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.one_version
Command = Callable[..., Result]


class Place:
    """A database with queues and logs, and what fills them."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def create(self, *queues: str) -> None:
        with Database(self.dsn).session() as session:
            for queue in queues:
                session.run_all(QueueTable(QueueAddress.from_user(queue, "public")).create())

    def put(self, *rows: Sent) -> None:
        with psycopg.connect(self.dsn) as connection:
            for row in rows:
                statement = f"insert into {row.queue} (id, headers, body) values (%s, %s, '{{}}')"
                connection.execute(statement, (row.id, row.headers))

    def log(self, name: str, *events: str) -> None:
        """Make a log with events of these types."""
        with Database(self.dsn).session() as session:
            session.run(log_catalog.create(name))
        with psycopg.connect(self.dsn) as connection:
            for type in events:
                rowbus.Log(connection, name).append("{}", type=type)
        self.tick(name)

    def tick(self, log: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("select pgq.force_tick(%s)", (log,))
            connection.execute("select pgq.ticker(%s)", (log,))

    def drain(self, queue: str, log: str) -> None:
        asyncio.run(rowbus.drain_queue(queue, log, database=self.dsn))
        self.tick(log)

    def rows(self, queue: str) -> int:
        with psycopg.connect(self.dsn) as connection:
            return int(connection.execute(f"select count(*) from {queue}").fetchall()[0][0])


@pytest.fixture
def place(log_database: str) -> Place:
    return Place(log_database)


@pytest.fixture
def command(spark: SparkSession, place: Place, tmp_path: Path) -> Command:
    app = typer.Typer()
    app.command()(spark_report.report)

    def run(*arguments: str) -> Result:
        where = ["--database", place.dsn, "--output", str(tmp_path / "flow")]
        return CliRunner().invoke(app, [*arguments, *where], env={"COLUMNS": "200"}, catch_exceptions=False)

    return run


def test_it_tells_of_queues_and_logs_and_takes_nothing(
    place: Place, command: Command, tmp_path: Path
) -> None:
    place.create("audit", "error", "Sales")
    rows = list(Shop().day(60))
    place.put(*rows)
    place.log("shop", "made")

    done = command("--queue", "audit", "--queue", "error", "--log", "shop")

    assert done.exit_code == 0, done.output
    assert "Billing" in done.stdout
    assert "is not known" in done.stdout
    assert "report.html" in done.stderr
    assert place.rows("audit") + place.rows("error") == 60
    page = (tmp_path / "flow" / "report.html").read_text(encoding="utf-8")
    assert "Shop.ChargeCard" in page
    assert "From event to tick" in page
    assert (tmp_path / "flow" / "latency.parquet").exists()


@pytest.mark.slow
def test_what_was_drained_into_a_log_and_archived_counts_once_as_if_it_were_still_in_its_queue(
    spark: SparkSession, place: Place, command: Command, tmp_path: Path
) -> None:
    def tables(*arguments: str) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = json.loads(command(*arguments, "--json").stdout)["tables"]
        return found

    place.create("audit", "error")
    place.put(*Shop().day(60))
    of_queues = tables("--queue", "audit", "--queue", "error")
    place.log("kept")
    place.drain("audit", "kept")
    archive = str(tmp_path / "archive")
    spark.read.format("rowbus").options(log="kept", dsn=place.dsn).load().write.parquet(archive)

    of_all = tables("--queue", "audit", "--queue", "error", "--log", "kept", "--archive", archive)

    assert of_all["latency"] == of_queues["latency"]
    assert of_all["failures"] == of_queues["failures"]
    assert of_all["throughput"] == of_queues["throughput"]
    assert of_all["overview"][0]["messages"] == 60
    assert of_all["overview"][0]["events"] == 60 - place.rows("error")
    assert {row["log"] for row in of_all["tick_delay"]} == {"kept"}


def test_what_is_too_old_is_not_read_from_a_log(spark: SparkSession, place: Place) -> None:
    from rowbus.spark.pipelines.report.input import MARGIN, Inputs, Sources  # noqa: PLC0415 - loads Spark

    place.log("shop", "made", "sold")
    now = datetime.now(UTC)

    def events_since(since: datetime | None) -> int:
        inputs = Inputs(spark, Sources(logs=["shop"]), place.dsn, since)
        inputs.check()
        events = inputs.events()
        return 0 if events is None else events.count()

    assert events_since(None) == 2
    assert events_since(now - MARGIN) == 2
    assert events_since(now + MARGIN * 2) == 0


@pytest.mark.slow
def test_an_archive_may_be_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    from rowbus.spark.pipelines.report.input import Inputs, Sources  # noqa: PLC0415 - loads Spark

    events = [("2024", 1, BEGIN, 5, None, "made", "é", None, None, None, None, 3)]
    rows = spark.createDataFrame(events, EVENTS).toArrow()
    write_deltalake(tmp_path / "archive", rows, partition_by=["log"])

    found = Inputs(spark, Sources(archives=[tmp_path / "archive"]), None).events()

    assert found is not None
    assert [(row.log, row.ev_id, row.bytes) for row in found.collect()] == [("2024", 1, 2)]


async def fail_with(dsn: str, *errors: Exception) -> None:
    """Have a real endpoint fail."""
    endpoint = rowbus.Endpoint(
        "Sales", database=dsn, recoverability=rowbus.Recoverability(immediate=0, delayed=0)
    )
    left = list(errors)
    done = asyncio.Event()

    @endpoint.handler
    async def place(message: PlaceOrder) -> None:
        error = left.pop()
        if not left:
            done.set()
        raise error

    async with endpoint:
        for _ in errors:
            await endpoint.send("Sales", PlaceOrder("42"))
        await done.wait()


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    """A message."""

    order_id: str


@pytest.mark.slow
def test_the_error_queue_of_a_real_endpoint_is_clustered(place: Place, command: Command) -> None:
    errors = [*(ValueError(f"Order {number} is gone") for number in range(3)), rowbus.Unrecoverable("closed")]
    asyncio.run(fail_with(place.dsn, *errors))

    tables = json.loads(command("--queue", "error", "--json").stdout)["tables"]

    assert [
        (row["messages"], row["endpoint"], row["exception"], row["pattern"]) for row in tables["failures"]
    ] == [
        (3, "Sales", "ValueError", "Order # is gone"),
        (1, "Sales", "rowbus.errors.Unrecoverable", "closed"),
    ]
    assert [row["stage"] for row in tables["latency"]] == ["until failure"]


def test_empty_queues_are_no_error(place: Place, command: Command) -> None:
    place.create("error")

    done = command("--queue", "error", "--since", "24h")

    assert done.exit_code == 0
    assert "neither a message nor an event in the time asked for" in done.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["--queue", "error", "--since", "soon"], ["--queue", "error", "--bucket", "0"]], ids=str
)
def test_bad_usage_ends_with_code_2(command: Command, arguments: list[str]) -> None:
    assert command(*arguments).exit_code == 2


def test_a_folder_that_is_no_archive_is_refused(
    spark: SparkSession, command: Command, tmp_path: Path
) -> None:
    spark.range(1).write.parquet(str(tmp_path / "other"))

    with pytest.raises(ConfigurationError, match="is no archive of a log"):
        command("--archive", str(tmp_path / "other"))


def test_a_queue_that_is_not_there_is_named(place: Place, command: Command) -> None:
    with pytest.raises(rowbus.errors.QueueNotFoundError, match="nowhere"):
        command("--queue", "nowhere")
