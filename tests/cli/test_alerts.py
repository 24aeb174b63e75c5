"""The alert rules of deploy/, on a real Prometheus: each fires when its trouble is made, and none before."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.log.gauges import DelayedGauges, LogGauges, QueueGauges
from rowbus.log.schema.installer import install_now
from rowbus.running.telemetry.instruments import Instruments
from rowbus.running.telemetry.process import process_families
from rowbus.sagas.stuck import overdue_gauge
from tests.fixtures.command_line import Ask, CommandLine
from tests.fixtures.processes import await_that
from tests.fixtures.spark_driver import driver_of_spark

RULES = Path(__file__).parents[2] / "deploy/prometheus/rowbus.rules.yml"
DASHBOARD = Path(__file__).parents[2] / "deploy/grafana/rowbus.json"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason="Prometheus is not installed here"),
]

CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: rowbus
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def test_the_rules_are_valid() -> None:
    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", RULES], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_and_the_dashboard_name_families_that_there_are() -> None:
    names = {
        family.name + ("_total" if family.kind == "counter" else "")
        for family in (
            *Instruments().families(),
            *QueueGauges().families(),
            *DelayedGauges().families(),
            *LogGauges().families(),
            *process_families(is_ready=True),
            overdue_gauge(),
        )
    }

    named = set(re.findall(r"rowbus_[a-z_]+", RULES.read_text() + DASHBOARD.read_text()))

    assert {re.sub("_bucket$", "", name) for name in named} <= names


LANES = """
rule_files: [rowbus.rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'rowbus_consumer_dead_letters{log="orders", consumer="billing", lane="0"}', values: 0 1+0x30}
      - {series: 'rowbus_consumer_dead_letters{log="orders", consumer="billing", lane="1"}', values: 0 2+0x30}
      - {series: 'rowbus_consumer_batch_age_seconds{log="orders", consumer="billing", lane="0"}', values: 4000+0x30}
      - {series: 'rowbus_consumer_batch_age_seconds{log="orders", consumer="billing", lane="1"}', values: 4000+0x30}
    alert_rule_test:
      - {eval_time: 8m, alertname: RowbusConsumerStuck, exp_alerts: [{exp_labels: &labels {
            severity: warning, log: orders, consumer: billing},
          exp_annotations: {summary: The consumer billing of log orders does not get on.}}]}
      - {eval_time: 8m, alertname: RowbusDeadLetters, exp_alerts: [{exp_labels: *labels,
          exp_annotations: {summary: The consumer billing of log orders gives up on events.}}]}
      - {eval_time: 20m, alertname: RowbusDeadLettersStay, exp_alerts: [{exp_labels: *labels,
          exp_annotations: {summary: The consumer billing of log orders has 3 dead letters.}}]}
"""


def test_a_consumer_with_lanes_fires_once(tmp_path: Path) -> None:
    (tmp_path / RULES.name).write_text(RULES.read_text())
    (tmp_path / "lanes.yml").write_text(LANES)

    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", tmp_path / "lanes.yml"], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A server of its own, which asks `rowbus metrics` several times a second."""

    def __init__(self, folder: Path, target: int) -> None:
        # What an alert waits for is time, of which a test has none: without `for`, and with seconds for minutes.
        rules = (
            RULES.read_text()
            .replace("[10m]", "[20s]")
            .replace("transaction_seconds > 60", "transaction_seconds > 0")
        )
        (folder / "rules.yml").write_text(re.sub(r"for: \w+", "for: 0s", rules))
        (folder / "prometheus.yml").write_text(CONFIGURATION.format(port=target))
        self._log = (folder / "prometheus.log").open("w+")
        self._process = subprocess.Popen(
            [
                str(PROMETHEUS),
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=self._log,
            cwd=folder,
        )
        await_that(lambda: bool(self._addresses()), "Prometheus")
        self._address = self._addresses()[0]

    def _addresses(self) -> list[str]:
        said = Path(self._log.name).read_text()
        assert self._process.poll() is None, said
        if "Server is ready to receive web requests" not in said:
            return []
        return re.findall(r"Listening on.*?address=(127\.0\.0\.1:\d+)", said)

    def await_value(self, expression: str, value: float) -> None:
        await_that(lambda: self.value(expression) == value, f"{expression} = {value}")

    def await_alert(self, name: str) -> None:
        await_that(lambda: name in self.firing(), name)

    def ask(self, path: str) -> Any:  # noqa: ANN401 - what Prometheus answers
        time.sleep(0.05)  # it has to have the processor to itself now and then
        with urllib.request.urlopen(f"http://{self._address}/api/v1/{path}") as answer:
            return json.load(answer)["data"]

    def value(self, expression: str) -> float | None:
        found = self.ask(f"query?query={urllib.parse.quote(expression)}")["result"]
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        return {
            one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"
        }

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()


@pytest.fixture
def prometheus(rowbus: CommandLine, ask: Ask, tmp_path: Path) -> Iterator[Prometheus]:
    with Database(rowbus.database).session() as session:
        install_now(session)
    for name in ("Sales", "error", "audit"):
        assert rowbus("queue", "create", name).returncode == 0
    assert rowbus("delayed", "create", "Sales").returncode == 0
    ask("select pgq.create_queue('orders')")
    ask("select pgq.register_consumer('orders', 'audit')")
    ask("select pgq.ticker('orders')")
    measuring = rowbus.start("metrics", "--listen", "127.0.0.1:0")
    port = int(measuring.wait_for(r"http://127.0.0.1:(\d+)/metrics")[0][1])
    server = Prometheus(tmp_path, port)
    yield server
    server.end()


def _has_failed(ask: Ask, number: int) -> None:
    headers = json.dumps({"NServiceBus.FailedQ": "Sales", "NServiceBus.MessageId": str(number)})
    ask("insert into error (id, headers, body) values (gen_random_uuid(), %s, '')", (headers,))


TROUBLES = {
    "RowbusClockOff": 'insert into "Sales" (id, headers, body) values (gen_random_uuid(), '
    "'{\"NServiceBus.TimeSent\": \"2126-01-01 00:00:00:000000 Z\"}', '')",
    "RowbusRecurringMissed": 'create table "Keeper.Recurring" (name text primary key, schedule text, '
    "next_due timestamptz, last_sent timestamptz); "
    "insert into \"Keeper.Recurring\" values ('nightly', 'every 1:00:00', now() - interval '5 minutes')",
    "RowbusAuditGrows": "insert into audit (id, headers, body) values (gen_random_uuid(), "
    "'{\"NServiceBus.TimeSent\": \"2026-01-01 00:00:00:000000 Z\"}', '')",
    "RowbusDelayedOverdue": 'insert into "Sales.Delayed" (headers, body, due) '
    "values ('{}', '', now() - interval '5 minutes')",
    "RowbusSequenceNearItsEnd": "select setval('\"Sales_seq_seq\"', 2000000000)",
    "RowbusQueueOld": 'delete from "Sales"; insert into "Sales" (id, headers, body) values (gen_random_uuid(), '
    "'{\"NServiceBus.TimeSent\": \"2026-01-01 00:00:00:000000 Z\"}', '')",
    "RowbusNobodyReceives": "select 1",  # there is the message that is old
    "RowbusNoTicker": "select pgq.insert_event('orders', 'placed', '{}');"
    "update pgq.event_1 set ev_time = ev_time - interval '1 hour'",
}


@pytest.mark.slow
@pytest.mark.turns("alerts", 1)
def test_each_alert_fires_when_its_trouble_is_made(
    prometheus: Prometheus, ask: Ask, rowbus: CommandLine
) -> None:
    prometheus.await_value("rowbus_database_up", 1)
    prometheus.await_value('rowbus_error_queue_depth{queue=~".*error.*"}', 0)
    assert prometheus.firing() == set()

    for alert, trouble in TROUBLES.items():
        ask(trouble)
        prometheus.await_alert(alert)
        if alert == "RowbusAuditGrows":
            assert "RowbusQueueOld" not in prometheus.firing()  # which is for queues that somebody empties

    _has_failed(ask, 1)
    prometheus.await_alert("RowbusErrorQueueGrows")
    prometheus.await_alert("RowbusFailuresStay")
    with psycopg.connect(rowbus.database) as connection:
        connection.execute("select pg_current_xact_id()")
        prometheus.await_alert("RowbusTransactionOpen")
    rowbus._started[0].process.terminate()
    prometheus.await_alert("RowbusProcessDown")


@pytest.mark.slow
@pytest.mark.turns("alerts", 1)
def test_a_consumer_that_is_stuck_and_blocks_rotation_fires(prometheus: Prometheus, ask: Ask) -> None:
    prometheus.await_value("rowbus_database_up", 1)
    ask("select pgq.insert_event('orders', 'placed', '{}')")
    ask("select pgq.force_tick('orders')")
    ask("select pgq.ticker('orders')")
    ask("select pgq.next_batch('orders', 'audit')")
    ask("update pgq.tick set tick_time = tick_time - interval '3 hours'")
    ask("update pgq.subscription set sub_active = sub_active - interval '3 hours'")
    prometheus.await_alert("RowbusConsumerStuck")

    ask("update pgq.queue set queue_switch_time = now() - interval '3 days'")
    ask("select pgq.maint_rotate_tables_step1('orders')")
    ask("update pgq.rotation_block set rb_since = now() - interval '1 hour'")
    prometheus.await_alert("RowbusRotationBlocked")


@pytest.mark.slow
@pytest.mark.turns("alerts", 1)
def test_a_spark_query_that_runs_and_is_behind_fires(
    prometheus: Prometheus, ask: Ask, rowbus: CommandLine
) -> None:
    ask("select pgq.insert_event('orders', 'placed', '{}')")
    ask("select pgq.force_tick('orders')")
    ask("select pgq.ticker('orders')")
    with driver_of_spark(rowbus.database, "orders", "audit"):
        prometheus.await_value("rowbus_consumer_spark_drivers", 1)
        assert "RowbusSparkBehind" not in prometheus.firing()

        ask("update pgq.tick set tick_time = tick_time - interval '3 hours'")
        prometheus.await_alert("RowbusSparkBehind")

    prometheus.await_value("rowbus_consumer_spark_drivers", 0)
    await_that(lambda: "RowbusSparkBehind" not in prometheus.firing(), "the alert's end: no driver runs")


@pytest.mark.slow
@pytest.mark.turns("alerts", 1)
def test_dead_letters_fire(prometheus: Prometheus, ask: Ask, rowbus: CommandLine) -> None:
    prometheus.await_value("rowbus_consumer_dead_letters", 0)
    (rowbus.folder / "giving_up.py").write_text(
        "import rowbus\nlog = rowbus.Log(None, 'orders')\n\n\n"
        "@log.consumer('audit', settings=rowbus.ConsumerSettings(max_retries=0))\n"
        "async def audit(event: rowbus.Event) -> None:\n    raise ValueError('no')\n"
    )
    rowbus.start("ticker")
    rowbus.start("run", "giving_up:log")
    ask("select pgq.insert_event('orders', 'placed', '{}')")

    prometheus.await_alert("RowbusDeadLetters")
    prometheus.await_alert("RowbusDeadLettersStay")
