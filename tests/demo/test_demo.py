"""`rowbus demo`, as a user runs it: a process of its own, with a file, a database, and somebody at the keyboard."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rowbus.database.embedded import postmaster
from rowbus.database.postgresql.database import Database
from rowbus.demo.report import reconcile
from rowbus.errors.extras import install_command
from tests.fixtures.database import run_directory
from tests.fixtures.places import ROOT
from tests.fixtures.spark import everything_but_java

EXAMPLES = ROOT / "examples"
DEMO = ROOT / "src/rowbus/demo"
ORDER: dict[str, object] = {
    "order_id": "1",
    "customer": "Ada",
    "country": "GB",
    "currency": "GBP",
    "items": [{"product": "HAT-02", "quantity": 2, "unit_price": "24.65"}],
    "payment": {"method": "visa", "token": "tok_1"},
}


ONE_OF_EACH = (
    {**ORDER, "express": True},
    *(
        {**ORDER, "order_id": order_id, "payment": {"method": "visa", "token": token}}
        for order_id, token in [
            ("declined", "tok_expired_card"),
            ("sleepy", "tok_sleepy_bank"),
            ("broken", "tok_broken_bank"),
        ]
    ),
    {**ORDER, "order_id": "failed", "country": "AQ"},
)
NEWS = {"delayed_retries": 1, "put_back": 1, "both_subscribers": 3, "reminders": 5, "processes": 5}


@pytest.fixture(autouse=True)
def _logs_of_the_endpoints_go_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tempfile.gettempdir()  # which remembers the real one, for the servers of the tests
    monkeypatch.setenv("TMPDIR", str(tmp_path))


started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _no_demo_outlives_its_test() -> Iterator[None]:
    yield
    while started:
        with started.pop() as process:
            process.kill()


def rowbus_demo(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the command in a process group of its own, as a shell does; without Spark unless it is asked for."""
    spark = [] if "--spark" in arguments else ["--no-spark"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rowbus", "demo", *spark, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NO_COLOR": "1"} | environment,
        process_group=0,
    )
    started.append(process)
    return process


def run_demo(*arguments: str, **environment: str) -> tuple[int, str, str]:
    process = rowbus_demo(*arguments, **environment)
    output, errors = process.communicate(timeout=90)
    return process.returncode, output, errors


def make_orders(path: Path, *, orders: int) -> list[str]:
    command: list[str | Path] = [
        sys.executable,
        EXAMPLES / "make_orders.py",
        "--orders",
        str(orders),
        "--output",
        path,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return path.read_text(encoding="utf-8").splitlines()


def write_lines(path: Path, *lines: bytes | dict[str, object]) -> Path:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(text + b"\n" for text in texts))
    return path


# ------------------------------------------------------------------------------------------------------- what it does


@pytest.mark.slow
def test_every_order_of_the_file_ends_as_its_card_country_and_items_decide(
    database: str, tmp_path: Path
) -> None:
    lines = make_orders(tmp_path / "orders.ndjson", orders=100)

    code, output, errors = run_demo(
        "--orders", str(tmp_path / "orders.ndjson"), "--database", database, "--json"
    )

    assert code == 0, errors
    summary = json.loads(output)
    assert summary["passed"]
    assert {check["name"]: check["wrong"] for check in summary["checks"]} == dict.fromkeys(DAMAGE, 0)
    assert outcomes(summary) == expected_outcomes(lines)
    assert {load["endpoint"] for load in summary["endpoints"]} == {"Sales", "Billing", "Shipping"}
    assert all(0 < period["median"] <= period["p99"] <= period["most"] for period in summary["periods"])
    assert summary["retried"] == sum("tok_slow_bank" in line for line in lines)
    assert summary["retried_later"] == sum("tok_sleepy_bank" in line for line in lines)
    assert summary["put_back"] == sum("tok_broken_bank" in line for line in lines)


def outcomes(summary: dict[str, Any]) -> Counter[str]:
    found = Counter[str]()
    for outcome in summary["outcomes"]:
        found[outcome["outcome"]] += outcome["number"]
    return found


def expected_outcomes(lines: list[str]) -> Counter[str]:
    """Count the outcomes by reading the file with other eyes than the demo's."""
    rejected = ('"XTS"', "CAR-99", '"quantity":0', '"quantity":-')
    declined = ("tok_insufficient_funds", "tok_expired_card", "tok_stolen_card")
    failed = ('"AQ"',)
    expected = Counter({"rejected": 3})  # cut off, sent twice, half missing
    for line in dict.fromkeys(line for line in lines if line.endswith("}") and "items" in line):
        kinds = {"rejected": rejected, "declined": declined, "failed": failed}
        expected[
            next((kind for kind, signs in kinds.items() if any(s in line for s in signs)), "shipped")
        ] += 1
    return expected


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.one_version
def test_the_summary_for_people_ends_with_the_verdict_and_fits_80_columns(
    database: str, tmp_path: Path
) -> None:
    make_orders(tmp_path / "orders.ndjson", orders=30)

    code, output, errors = run_demo("--orders", str(tmp_path / "orders.ndjson"), "--database", database)

    assert code == 0, errors
    assert output.rstrip().splitlines()[-1].startswith("PASS: all 17 checks hold for all 33 lines")
    assert max(map(len, output.splitlines())) <= 80
    assert "waiting: Sales" in errors
    (logs,) = [line.rpartition(" ")[2] for line in errors.splitlines() if "log to" in line]
    assert "is receiving from" in Path(logs, "sales.log").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.one_version
def test_several_workers_serve_each_endpoint(database: str, tmp_path: Path) -> None:
    make_orders(tmp_path / "orders.ndjson", orders=30)

    code, _output, errors = run_demo(
        "--orders", str(tmp_path / "orders.ndjson"), "--database", database, "--workers", "2"
    )

    assert code == 0, errors


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.one_version
def test_a_bank_that_is_down_is_asked_later_or_after_it_was_mended_and_who_has_not_paid_is_reminded(
    database: str, tmp_path: Path
) -> None:
    orders = write_lines(tmp_path / "own.ndjson", *ONE_OF_EACH)

    code, output, errors = run_demo("--orders", str(orders), "--database", database, "--json")

    assert code == 0, errors
    summary = json.loads(output)
    checked = {check["name"]: check["checked"] for check in summary["checks"]}
    assert {name: checked[name] for name in NEWS} == NEWS
    assert outcomes(summary) == Counter(shipped=3, declined=1, failed=1)
    with psycopg.connect(database) as connection:
        reminded = connection.execute("select order_id from rowbus_demo.reminders where sent").fetchall()
        assert ("broken",) in reminded  # others, too, if this machine takes longer than usual
        waiting = connection.execute('select correlation from rowbus_demo."Sales.OrderProcess"').fetchall()
        assert waiting == [("failed",)]  # for a shipment that no carrier takes; the others have ended


def test_the_committed_orders_are_what_the_script_writes(tmp_path: Path) -> None:
    make_orders(tmp_path / "orders.ndjson", orders=2000)

    assert (tmp_path / "orders.ndjson").read_bytes() == (DEMO / "orders.ndjson").read_bytes()


# ------------------------------------------------------------------------------------------------- what users give it


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.one_version
def test_lines_that_are_no_orders_are_rejected_with_a_reason_and_the_others_go_through(
    database: str, tmp_path: Path
) -> None:
    no_customer = {name: value for name, value in ORDER.items() if name != "customer"}
    orders = write_lines(
        tmp_path / "own.ndjson",
        b"\xef\xbb\xbf" + json.dumps(ORDER).encode() + b"\r",
        b"",
        b"   ",
        b"no json at all",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"null",
        no_customer,
        {**ORDER, "order_id": ""},
        {**ORDER, "order_id": 7},
        {**ORDER, "order_id": "1"},
        {**ORDER, "order_id": "2", "customer": "a\x00b"},
        {**ORDER, "order_id": "3", "items": []},
        {**ORDER, "order_id": "4", "items": [{"product": "HAT-02", "quantity": 1, "unit_price": "NaN"}]},
        {**ORDER, "order_id": "7", "items": [{"product": "HAT-02", "quantity": 1, "unit_price": "-1"}]},
        {**ORDER, "order_id": "5", "items": [{"product": "HAT-02", "quantity": 10**30, "unit_price": "1"}]},
        {**ORDER, "order_id": "6", "customer": "O'Brien \U0001f600 %s :'x' ${}"},
    )

    code, output, errors = run_demo("--orders", str(orders), "--database", database, "--json")

    assert code == 0, errors
    summary = json.loads(output)
    assert outcomes(summary) == Counter(shipped=2, rejected=12, failed=1)
    reasons = {o["reason"].partition(":")[0] for o in summary["outcomes"] if o["outcome"] == "rejected"}
    assert reasons == {
        "not an order",
        "duplicate of line 1",
        "nothing was ordered",
        "a unit price that is no price",
    }
    with psycopg.connect(database) as connection:
        customers = connection.execute("select customer from rowbus_demo.orders where order_id in ('1', '6')")
        assert {customer for (customer,) in customers} == {"Ada", "O'Brien \U0001f600 %s :'x' ${}"}


@pytest.mark.parametrize("content", [None, b"", b"\n \r\n"], ids=["missing", "empty", "blank"])
def test_a_file_without_orders_is_refused_before_anything_is_started(
    content: bytes | None, tmp_path: Path
) -> None:
    orders, server = tmp_path / "own.ndjson", tmp_path / "server"
    if content is not None:
        orders.write_bytes(content)

    code, output, errors = run_demo("--orders", str(orders), ROWBUS_EMBEDDED_DIRECTORY=str(server))

    assert (code, output) == (2, "")
    assert str(orders) in errors
    assert len(errors.splitlines()) == 1
    assert not server.exists()


@pytest.mark.one_version
def test_a_schema_that_the_demo_did_not_make_is_left_alone(database: str, tmp_path: Path) -> None:
    orders = write_lines(tmp_path / "own.ndjson", ORDER)
    with psycopg.connect(database) as connection:
        connection.execute("create schema rowbus_demo; create table rowbus_demo.precious ()")

    code, _output, errors = run_demo("--orders", str(orders), "--database", database)

    assert code == 2
    assert "did not make" in errors
    with psycopg.connect(database) as connection:
        connection.execute("select from rowbus_demo.precious")


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.one_version
def test_the_schema_is_made_anew_but_not_while_another_demo_uses_it(database: str, tmp_path: Path) -> None:
    orders = write_lines(tmp_path / "own.ndjson", ORDER)
    assert run_demo("--orders", str(orders), "--database", database)[0] == 0
    with psycopg.connect(database) as connection:
        connection.execute((DEMO / "sql/lock_demo.sql").read_bytes())

        code, _output, errors = run_demo("--orders", str(orders), "--database", database)

        assert code == 2
        assert "Another demo is running" in errors
    assert run_demo("--orders", str(orders), "--database", database)[0] == 0


# -------------------------------------------------------------------------------------------------- what it would find

DAMAGE = {
    "all_read": "delete from rowbus_demo.lines where line = 1",
    "one_final_state": "update rowbus_demo.orders set state = 'paid' where state = 'declined'",
    "from_the_file": "update rowbus_demo.shipments set order_id = 'nobody'",
    "one_payment": """insert into rowbus_demo.payments (order_id, amount, currency, method, state)
        select order_id, amount, currency, method, state from rowbus_demo.payments where state = 'charged'""",
    "one_shipment": "insert into rowbus_demo.shipments select * from rowbus_demo.shipments",
    "amounts": "update rowbus_demo.order_items set unit_price = unit_price + 0.01",
    "revenue": "update rowbus_demo.payments set amount = amount - 1 where state = 'charged'",
    "failures_undone": "insert into rowbus_demo.shipments select 'failed', 'AQ', '' from rowbus_demo.error",
    "delayed_retries": "update rowbus_demo.payments set delayed_retries = 0",
    "put_back": "delete from rowbus_demo.put_back",
    "both_subscribers": "insert into rowbus_demo.invoices select * from rowbus_demo.invoices where order_id = '1'",
    "reminders": "delete from rowbus_demo.reminders where order_id = 'failed'",
    "processes": 'delete from rowbus_demo."Sales.OrderProcess"',
    "estimates_in_time": "update rowbus_demo.estimates set answered_at = answered_at + interval '1 hour'",
    "books_revenue": "update rowbus_demo.revenue set amount = amount + 0.01",
    "books_orders": "delete from rowbus_demo.order_states where state = 'declined'",
    "queues_empty": """insert into rowbus_demo."Billing" select * from rowbus_demo.error""",
}
DAMAGE_BY_BROKEN_PROMISES = {
    "delayed_retries": [
        "delete from rowbus_demo.payments where order_id = 'sleepy'",  # lost
        """insert into rowbus_demo.payments (order_id, amount, currency, method, state, delayed_retries, settled_at)
        select order_id, amount, currency, method, state, delayed_retries, settled_at
        from rowbus_demo.payments where order_id = 'sleepy'""",  # doubled
        "update rowbus_demo.payments set settled_at = settled_at - interval '1 minute'",  # early
    ],
    "put_back": [
        "delete from rowbus_demo.payments where order_id = 'broken'",
        "insert into rowbus_demo.put_back select * from rowbus_demo.put_back",
        "update rowbus_demo.outages set mended_at = null",
        "update rowbus_demo.payments set delayed_retries = 1",  # its retries were not counted anew
    ],
    "both_subscribers": [
        "delete from rowbus_demo.invoices where order_id = '1'",  # Billing heard nothing
        "update rowbus_demo.orders set state = 'paid' where order_id = '1'",  # Sales heard nothing
        "update rowbus_demo.invoices set amount = amount + 1",
    ],
    "reminders": [
        "delete from rowbus_demo.reminders where sent",
        "insert into rowbus_demo.reminders select * from rowbus_demo.reminders where sent",
        "update rowbus_demo.reminders set order_id = 'nobody'",
        "update rowbus_demo.reminders set sent = true",
        "update rowbus_demo.reminders set sent = false",
        "update rowbus_demo.reminders set at = at - interval '1 minute'",
    ],
    "processes": [
        """update rowbus_demo."Sales.OrderProcess" set correlation = '1'""",  # shipped, and waits on
        """update rowbus_demo."Sales.OrderProcess" set correlation = 'nobody'""",
        """update rowbus_demo."Sales.OrderProcess" set state = '{"paid": false}'""",  # for what it has
        """update rowbus_demo."Sales.OrderProcess" set timeouts = '[{}]'""",  # its timeout was lost
        "update rowbus_demo.orders set state = 'placed' where order_id = 'failed'",
    ],
}


SPARK_DAMAGE = {
    "replica_orders": "update rowbus_demo_replica.orders set paid_at = paid_at + interval '1 microsecond'",
    "replica_payments": "insert into rowbus_demo_replica.payments select * from rowbus_demo_replica.payments limit 1",
    "archive": "delete from rowbus_demo.archived where ev_id = (select max(ev_id) from rowbus_demo.events)",
}
MORE_DAMAGE = {
    "replica_orders": "delete from rowbus_demo_replica.orders where order_id = '1'",
    "replica_payments": "insert into rowbus_demo_replica.payments select 999, order_id from rowbus_demo.orders limit 1",
    "archive": "insert into rowbus_demo.archived select * from rowbus_demo.archived limit 1",
}


@pytest.mark.slow
@pytest.mark.one_version
def test_each_check_finds_the_damage_it_is_for(database: str, tmp_path: Path) -> None:
    orders = write_lines(tmp_path / "own.ndjson", *ONE_OF_EACH)
    assert run_demo("--orders", str(orders), "--database", database)[0] == 0

    assert damage_found(database, "select") == set()
    for name, damage in DAMAGE.items():
        assert name in damage_found(database, damage)
    for name, damages in DAMAGE_BY_BROKEN_PROMISES.items():
        for damage in damages:
            assert name in damage_found(database, damage), damage
    assert set(DAMAGE) == checks_of(database)
    do_sparks_work(database)
    assert damage_found(database, "select", with_spark=True) == set()
    for name, damage in [*SPARK_DAMAGE.items(), *MORE_DAMAGE.items()]:
        assert damage_found(database, damage, with_spark=True) == {name}
    assert {*DAMAGE, *SPARK_DAMAGE} == checks_of(database, with_spark=True)


def do_sparks_work(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("create table rowbus_demo_replica.orders as table rowbus_demo.orders")
        connection.execute("create table rowbus_demo_replica.payments as table rowbus_demo.payments")
        connection.execute("""insert into rowbus_demo.archived select ev_id, ev_time, ev_txid, ev_retry,
            ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4 from rowbus_demo.events""")


def checks_of(database: str, *, with_spark: bool = False) -> set[str]:
    with Database(database).session() as session:
        return {check.name for check in reconcile(session, lines=1, with_spark=with_spark)}


def damage_found(database: str, damage: str, *, with_spark: bool = False) -> set[str]:
    """Do some damage, and give the checks that fail; undo it."""
    with Database(database).session() as session, session.connection.transaction(force_rollback=True):
        session.connection.execute(damage)
        checks = reconcile(session, lines=len(ONE_OF_EACH), with_spark=with_spark)
        return {check.name for check in checks if not check.passed}


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.one_version
def test_an_endpoint_that_ends_too_early_ends_the_demo_with_its_last_words(
    database: str, tmp_path: Path
) -> None:
    make_orders(tmp_path / "orders.ndjson", orders=1000)
    process = rowbus_demo("--orders", str(tmp_path / "orders.ndjson"), "--database", database)
    await_progress(process)
    family = children(process.pid)

    os.kill(family[1], signal.SIGKILL)  # the first is the page
    _output, errors = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "Sales has ended with exit code -9" in errors
    assert "Traceback" not in errors
    assert not any(map(postmaster.is_alive, family))


# ------------------------------------------------------------------------------------------------------------- Ctrl-C


@pytest.fixture
def server_directory() -> Iterator[Path]:
    """Give the place of an embedded server that nobody else uses."""
    with run_directory(Path(tempfile.gettempdir())) as directory:
        yield directory / "server"


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_ctrl_c_leaves_no_process_and_no_server_behind(
    number: signal.Signals, server_directory: Path
) -> None:
    process = rowbus_demo(ROWBUS_EMBEDDED_DIRECTORY=str(server_directory))
    await_progress(process)
    family = children(process.pid)
    server = postmaster.running(server_directory / "data")
    assert len(family) == 6  # the page, three endpoints, Bookkeeping and the ticker
    assert server is not None

    os.killpg(process.pid, number)
    output, errors = process.communicate(timeout=60)

    assert process.returncode == (-number if number is signal.SIGKILL else 130)
    assert "Traceback" not in errors
    assert output == ""
    assert postmaster.wait_until(lambda: not any(map(postmaster.is_alive, [*family, server])), seconds=20)


@pytest.mark.one_version
@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.parametrize("after", [0.3, 0.5, 0.7, 0.9, 1.1, 1.4])
def test_ctrl_c_while_it_starts_leaves_nothing_either(after: float, database: str) -> None:
    process = rowbus_demo("--database", database)
    deadline, family = time.monotonic() + after, set[int]()
    while time.monotonic() < deadline:
        family.update(children(process.pid))
        time.sleep(0.005)

    os.killpg(process.pid, signal.SIGINT)
    _output, errors = process.communicate(timeout=60)

    assert process.returncode in {130, -signal.SIGINT}
    assert not any(map(postmaster.is_alive, family))
    if "Rowbus demo" in errors:  # before that it is Python that starts, with its own way to be interrupted
        assert "Traceback" not in errors


def await_progress(process: subprocess.Popen[str]) -> None:
    """Wait until the demo reports progress."""
    assert process.stderr is not None
    for line in process.stderr:
        if "waiting: Sales" in line:
            return
    pytest.fail("the demo ended before it had begun")


def children(pid: int) -> list[int]:
    """List a process's children, oldest first."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


# ------------------------------------------------------------------------------------------------------------- Spark

NO_SPARK = "import sys; sys.modules['pyspark'] = None; from rowbus.cli import main; main()"


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.spark
@pytest.mark.one_version
@pytest.mark.timeout(400)
def test_spark_without_java_archives_and_replicates_what_the_shop_did(database: str, tmp_path: Path) -> None:
    make_orders(tmp_path / "orders.ndjson", orders=60)
    path = str(everything_but_java(tmp_path / "bin"))

    process = rowbus_demo(
        "--orders", str(tmp_path / "orders.ndjson"), "--database", database, "--spark", "--json", PATH=path
    )
    output, errors = process.communicate(timeout=350)

    assert process.returncode == 0, errors
    summary = json.loads(output)
    checked = {check["name"]: (check["checked"], check["wrong"]) for check in summary["checks"]}
    assert set(checked) == {*DAMAGE, *SPARK_DAMAGE}
    assert all(checked[name][0] > 50 for name in SPARK_DAMAGE), checked
    assert Path(summary["spark"]["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert any(Path(summary["spark"]["archive"]).rglob("*.parquet"))
    assert re.search(
        r"applied [\d,]+ events to rowbus_demo_replica.orders and rowbus_demo_replica.payments", errors
    )


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.spark
@pytest.mark.one_version
@pytest.mark.timeout(300)
def test_ctrl_c_while_spark_works_ends_spark_and_its_java(database: str, tmp_path: Path) -> None:
    orders = write_lines(tmp_path / "own.ndjson", ORDER)
    process = rowbus_demo("--orders", str(orders), "--database", database, "--spark")
    assert process.stderr is not None
    for line in process.stderr:
        if "Spark is starting" in line:
            break
    assert postmaster.wait_until(
        lambda: len(descendants(process.pid)) > 1, seconds=60
    )  # Python, and its Java
    family = descendants(process.pid)

    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Traceback" not in errors
    assert output == ""
    assert postmaster.wait_until(lambda: not any(map(postmaster.is_alive, family)), seconds=20)


def descendants(pid: int) -> list[int]:
    """List a process's children, and theirs."""
    return [one for child in children(pid) for one in (child, *descendants(child))]


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.one_version
def test_where_spark_is_missing_the_demo_says_so_and_does_the_rest(database: str, tmp_path: Path) -> None:
    orders = write_lines(tmp_path / "own.ndjson", ORDER)

    done = run_without_spark("--orders", str(orders), "--database", database)

    assert done.returncode == 0, done.stderr
    assert f"Spark is not installed: {install_command('spark')}" in done.stderr
    assert done.stdout.rstrip().splitlines()[-1].startswith("PASS: all 17 checks hold")


def test_spark_that_is_asked_for_and_missing_is_an_error_before_anything_is_started(tmp_path: Path) -> None:
    orders, server = write_lines(tmp_path / "own.ndjson", ORDER), tmp_path / "server"

    done = run_without_spark("--spark", "--orders", str(orders), ROWBUS_EMBEDDED_DIRECTORY=str(server))

    assert (done.returncode, done.stdout) == (2, "")
    assert f"Spark is not installed: {install_command('spark')}" in done.stderr
    assert not server.exists()


def run_without_spark(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NO_SPARK, "demo", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1"} | environment,
        timeout=90,
        check=False,
    )


# ------------------------------------------------------------------------------------------------- the operator's page


@pytest.mark.slow
@pytest.mark.turns("demo", 2)
@pytest.mark.one_version
def test_the_operators_page_is_open_meanwhile_and_stays_if_it_is_to(database: str, tmp_path: Path) -> None:
    orders = write_lines(tmp_path / "own.ndjson", ORDER)
    process = rowbus_demo("--keep", "--json", "--orders", str(orders), "--database", database)
    assert process.stderr is not None
    told: list[str] = []
    for line in process.stderr:
        told.append(line)
        if "stays open" in line:
            break
    address = re.search(r"http://127\.0\.0\.1:\d+/enter\?ticket=\S+", "".join(told))
    assert address is not None, told

    with httpx.Client() as browser:
        browser.get(address[0]).raise_for_status()
        shown = browser.get(address[0].partition("/enter")[0])

    assert shown.status_code == 200
    assert "Shipping" in shown.text
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert json.loads(output)["passed"] is True
