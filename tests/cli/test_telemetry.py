"""Telemetry of a process that serves: measurements, health, JSON lines, and its life to systemd."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from rowbus.running.telemetry.listener import LONGEST_REQUEST
from tests.fixtures.command_line import Ask, CommandLine, Running
from tests.fixtures.processes import await_that

pytestmark = pytest.mark.one_version

SHOP = """
import rowbus

endpoint = rowbus.Endpoint("Sales", recoverability=rowbus.Recoverability(immediate=1, delayed=0))


@endpoint.handler("Shop.Place")
async def place(message: dict, context: rowbus.Context) -> None:
    await context.send("Shipping", {}, type="Shop.Ship")


@endpoint.handler("Shop.Fail")
async def fail(message: dict) -> None:
    raise ValueError("no\\nsuch order")


log = rowbus.Log(None, "orders")


@log.consumer("audit")
async def audit(event: rowbus.Event) -> None: ...


@log.consumer("billing", key="extra1", lanes=rowbus.by_key(2))
async def bill(event: rowbus.Event) -> None: ...
"""

LISTENING = r"Metrics and health are at http://127.0.0.1:(\d+)/metrics"


@pytest.fixture
def shop(rowbus: CommandLine) -> CommandLine:
    (rowbus.folder / "shop.py").write_text(SHOP)
    assert rowbus("queue", "create", "Shipping").returncode == 0
    return rowbus


def port_of(running: Running) -> int:
    return int(running.wait_for(LISTENING)[0][1])


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def has(port: int, *samples: str) -> None:
    """Wait until the measurements have these lines."""
    wanted = set(samples)
    await_that(lambda: wanted <= set(get(port, "/metrics")[1].splitlines()), f"{samples}")


def allow_connections(database: str, *, allow: bool) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    elsewhere = psycopg.conninfo.make_conninfo(database, dbname="postgres")
    with psycopg.connect(elsewhere, autocommit=True) as connection:
        connection.execute(f'alter database "{name}" allow_connections {allow}'.encode())


def tells_that_peeking_fails(port: int) -> bool:
    status, text = get(port, "/readyz")
    return status == 503 and bool(re.search(r"^Peeking .*: fails$", text, re.MULTILINE))


def send(shop: CommandLine, *kinds: str) -> None:
    for kind in kinds:
        done = shop("queue", "send", "Sales", "--type", kind, "{}")
        assert done.returncode == 0, done.stderr


def test_an_endpoint_is_measured(shop: CommandLine) -> None:
    running = shop.start("run", "shop:endpoint", "--metrics", "127.0.0.1:0")
    port = port_of(running)
    running.wait_for("is receiving from")
    send(shop, "Shop.Place", "Shop.Fail")

    has(
        port,
        'rowbus_messages_handled_total{endpoint="Sales",type="Shop.Place"} 1',
        'rowbus_messages_sent_total{endpoint="Sales",type="Shop.Ship"} 1',
        'rowbus_attempts_failed_total{endpoint="Sales",type="Shop.Fail"} 2',
        'rowbus_messages_retried_total{endpoint="Sales",type="Shop.Fail",kind="immediate"} 1',
        'rowbus_messages_given_up_total{endpoint="Sales",type="Shop.Fail"} 1',
        'rowbus_processing_seconds_count{endpoint="Sales",type="Shop.Place"} 1',
        'rowbus_critical_time_seconds_count{endpoint="Sales",type="Shop.Place"} 1',
        'rowbus_failed_attempt_seconds_count{endpoint="Sales",type="Shop.Fail",error="ValueError"} 2',
        'rowbus_messages_in_hand{endpoint="Sales"} 0',
        "rowbus_ready 1",
    )


def test_only_three_pages_are_served_and_only_to_get(shop: CommandLine) -> None:
    port = port_of(shop.start("ticker", "--metrics", "127.0.0.1:0"))

    assert get(port, "/livez") == (200, "alive\n")
    assert get(port, "/metrics", "HEAD") == (200, "")
    assert get(port, "/")[0] == 404
    assert get(port, "/metrics", "POST")[0] == 405
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(
            b"GET /" + b"x" * LONGEST_REQUEST
        )  # no more than it reads, which would break the connection
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_an_address_that_is_taken_is_explained(shop: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = shop("ticker", "--metrics", f"127.0.0.1:{taken.getsockname()[1]}")

    assert done.returncode == 2
    assert "give --metrics another address" in done.stderr


def test_it_is_ready_unless_the_database_is_away(shop: CommandLine, ask: Ask) -> None:
    running = shop.start("run", "shop:endpoint", "--metrics", "127.0.0.1:0")
    port = port_of(running)
    await_that(lambda: get(port, "/readyz") == (200, "ready\n"), "readiness")

    allow_connections(shop.database, allow=False)
    ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'rowbus %'")
    await_that(
        lambda: tells_that_peeking_fails(port), "the outage"
    )  # another activity may have failed before
    running.wait_for("Failed to peek.* trying again until it works")
    assert get(port, "/livez")[0] == 200
    assert "rowbus_ready 0" in get(port, "/metrics")[1]
    allow_connections(shop.database, allow=True)

    await_that(lambda: get(port, "/readyz")[0] == 200, "the end of the outage")
    running.wait_for("Peeking .* works again")
    # The mover looks over the same connection: its own line says so, too.
    assert len([line for line in running.lines if "rowbus.receiving: Failed to peek" in line]) == 1
    assert 'rowbus_outages_total{activity="Peeking' in get(port, "/metrics")[1]


def test_an_outage_of_what_is_measured_is_a_line_at_its_beginning_and_one_at_its_end(
    shop: CommandLine, ask: Ask
) -> None:
    measuring = shop.start("metrics", "--listen", "127.0.0.1:0")
    port = port_of(measuring)
    has(port, "rowbus_database_up 1")
    allow_connections(shop.database, allow=False)
    for _ in range(3):
        has(port, "rowbus_database_up 0")
    allow_connections(shop.database, allow=True)
    has(port, "rowbus_database_up 1")

    measuring.wait_for("Measuring the database works again after [3-9] failures")
    (line,) = [line for line in measuring.lines if "WARNING" in line]
    assert line.count("failed") <= 2


def test_workers_are_measured_each_by_its_number(shop: CommandLine) -> None:
    running = shop.start("run", "shop:endpoint", "--workers", "2", "--metrics", "127.0.0.1:0")
    port = port_of(running)
    await_that(lambda: get(port, "/readyz")[0] == 200, "both workers")
    send(shop, "Shop.Place")

    def handled() -> bool:
        lines = get(port, "/metrics")[1].splitlines()
        return any(line.startswith('rowbus_messages_handled_total{endpoint="Sales"') for line in lines)

    await_that(handled, "a message")
    has(port, 'rowbus_ready{worker="1"} 1', 'rowbus_ready{worker="2"} 1')  # a worker that is slow is left out
    text = get(port, "/metrics")[1]
    assert text.count("# TYPE rowbus_ready gauge") == 1


def test_ticker_mover_and_consumer_are_measured(shop: CommandLine, ask: Ask) -> None:
    with Database(shop.database).session() as session:
        install_now(session)
    ask("select pgq.create_queue('orders')")
    assert shop("delayed", "create", "Sales").returncode == 0
    ticker = port_of(shop.start("ticker", "--metrics", "127.0.0.1:0"))
    mover = port_of(shop.start("delayed", "move", "Sales", "--metrics", "127.0.0.1:0"))
    consuming = shop.start("run", "shop:log", "--metrics", "127.0.0.1:0")
    consumer = port_of(consuming)
    consuming.wait_for("is at work")
    ask("select pgq.insert_event('orders', 'placed', '{}')")

    has(ticker, 'rowbus_leading{service="ticker"} 1')
    await_that(lambda: 'rowbus_ticks_total{log="orders"}' in get(ticker, "/metrics")[1], "a tick")
    has(mover, 'rowbus_delayed_overdue_seconds{table="Sales.Delayed"} 0')
    has(consumer, 'rowbus_consumer_events_total{log="orders",consumer="audit"} 1')
    batches = 'rowbus_consumer_batches_total{log="orders",consumer="billing",lane="1"}'
    await_that(lambda: batches in get(consumer, "/metrics")[1], "a batch of a lane")


def test_a_database_is_measured_from_outside(shop: CommandLine, ask: Ask) -> None:
    with Database(shop.database).session() as session:
        install_now(session)
    ask("select pgq.create_queue('orders')")
    assert shop("queue", "create", "Sales").returncode == 0
    send(shop, "Shop.Place")

    done = shop("metrics")

    assert done.returncode == 0, done.stderr
    assert {
        "rowbus_database_up 1",
        r'rowbus_queue_depth{queue="\"public\".\"Sales\"",kind="queue"} 1',
        r'rowbus_queue_depth{queue="\"public\".\"Shipping\"",kind="queue"} 0',
        "rowbus_tickers 0",
        'rowbus_log_ticker_late{log="orders"} 0',
    } <= set(done.stdout.splitlines())


def test_json_lines_about_a_message_say_which(shop: CommandLine) -> None:
    running = shop.start("run", "shop:endpoint", "--log-format", "json")
    running.wait_for("is receiving from")
    send(shop, "Shop.Fail")
    running.wait_for("Moving message")

    lines = [json.loads(line) for line in running.lines]

    about = next(line for line in lines if line["message"].startswith("Moving message"))
    assert about["level"] == "ERROR"
    assert about["endpoint"] == "Sales"
    assert about["handler"] == "shop.fail"
    assert about["message_type"] == "Shop.Fail"
    assert about["message_id"] in about["message"]
    assert about["conversation_id"]
    assert "ValueError" in about["exception"]
    assert not any("message_id" in line for line in lines if "is receiving from" in line["message"])


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(shop: CommandLine, abstract: bool) -> None:  # noqa: FBT001 - a parameter of the test
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(30)
        path = f"@rowbus-{os.getpid()}" if abstract else str(shop.folder / "notify")
        manager.bind(f"\0{path[1:]}" if abstract else path)
        running = shop.start("ticker", NOTIFY_SOCKET=path, WATCHDOG_USEC="200000")
        told = [manager.recv(100) for _ in range(4)]
        running.tell(signal.SIGTERM)
        while told[-1] != b"STOPPING=1":
            told.append(manager.recv(100))

    assert running.wait() == 0
    assert b"READY=1" in told
    assert told.count(b"WATCHDOG=1") >= 2
