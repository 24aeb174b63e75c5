"""`rowbus log`: every command says what it changed or found, in words and as JSON, and ends with the right code."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rowbus.messages.address import QueueAddress
from rowbus.transport.lanes.lane_table import lock_of
from tests.fixtures.command_line import Ask, CommandLine, table

AwaitRows = Callable[[str, int], None]


@pytest.fixture
def database(log_database: str) -> str:
    """Give a database that has the event log."""
    return log_database


LANE_LOCK = lock_of(QueueAddress("pgq", "orders/billing#1"))


@pytest.fixture
def bare_database(postgres_server: str, rowbus: CommandLine, ask: Ask) -> str:
    """Take the event log out of the test's database again."""
    ask("drop schema pgq cascade")
    ask("drop schema if exists pgq_coop, pgq_ext, pgq_node cascade")
    return rowbus.database


def found(rowbus: CommandLine, *arguments: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
    done = rowbus(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def tick(ask: Ask) -> Callable[[], int]:
    """Give what ticks the log `orders`."""

    def tick() -> int:
        ask("select pgq.force_tick('orders')")
        number: int = ask("select pgq.ticker('orders')")[0][0]
        return number

    return tick


@pytest.fixture
def orders(rowbus: CommandLine, ask: Ask) -> str:
    """Give the log `orders`."""
    assert ask("select pgq.create_queue('orders')") == [(1,)]
    return "orders"


@pytest.fixture
def consumer(orders: str, ask: Ask) -> str:
    ask("select pgq.register_consumer(%s, 'revenue')", [orders])
    return "revenue"


# ---------------------------------------------------------------------------------------------------- create and drop


def test_create_says_which_logs_were_missing(rowbus: CommandLine) -> None:
    assert rowbus("log", "create", "orders").stdout == "Created log orders.\n"

    assert rowbus("log", "create", " ").returncode == 2
    again = rowbus("log", "create", "orders", "pay ments")

    assert again.returncode == 0
    assert again.stdout == "Log orders was there already.\nCreated log pay ments.\n"
    assert [log["log"] for log in found(rowbus, "log", "list")] == ["orders", "pay ments"]


@pytest.mark.usefixtures("bare_database")
def test_a_database_without_the_event_log_is_told_how_to_get_it(rowbus: CommandLine) -> None:
    for command in (
        ("create", "orders"),
        ("list",),
        ("consumers",),
        ("append", "orders", "x"),
        ("read", "orders"),
    ):
        done = rowbus("log", *command)
        assert done.returncode == 1, command
        assert "rowbus log install" in done.stderr, command
        assert "Traceback" not in done.stderr

    done = rowbus("log", "create", "orders", "--install")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Installed the schema pgq.\nCreated log orders.\n"
    assert rowbus("log", "create", "orders", "--install").stdout == "Log orders was there already.\n"


def test_drop_asks_first_and_says_what_it_dropped(rowbus: CommandLine, orders: str) -> None:
    unasked = rowbus("log", "drop", orders)
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr

    done = rowbus("log", "drop", orders, "--yes")
    assert (done.returncode, done.stdout) == (0, "Dropped log orders.\n")
    missing = rowbus("log", "drop", orders, "--yes")
    assert missing.returncode == 1
    assert "rowbus log create" in missing.stderr


@pytest.mark.one_version
def test_a_log_with_consumers_is_only_dropped_by_force(
    rowbus: CommandLine, orders: str, consumer: str
) -> None:
    refused = rowbus("log", "drop", orders, "--yes")
    assert refused.returncode == 1
    assert "consumers still attached" in refused.stderr

    assert rowbus("log", "drop", orders, "--yes", "--force").returncode == 0


# ------------------------------------------------------------------------------------------------------------ append


def test_append_and_read_show_the_same(rowbus: CommandLine, orders: str, tick: Callable[[], int]) -> None:
    first = rowbus(
        "log", "append", orders, '{"order": 42}', "--type", "placed", "--extra", "one", "--extra", "two"
    )
    assert first.stdout == "Appended event 1 to log orders.\n"
    assert (
        rowbus("log", "append", orders, input="from the input é").stdout
        == "Appended event 2 to log orders.\n"
    )
    tick()

    one, two = found(rowbus, "log", "read", orders)
    assert (one["id"], one["type"], one["data"], one["extra1"], one["extra2"]) == (
        1,
        "placed",
        '{"order": 42}',
        "one",
        "two",
    )
    assert (two["data"], two["type"]) == ("from the input é", None)
    shown = rowbus("log", "read", orders).stdout
    assert '{"order": 42}' in shown
    assert "one | two" in shown


@pytest.mark.one_version
def test_append_takes_a_file_line_by_line(rowbus: CommandLine, orders: str, tick: Callable[[], int]) -> None:
    (rowbus.folder / "events.ndjson").write_text("1\n\n2\r\n3", encoding="utf-8")

    done = rowbus("log", "append", orders, "--lines", "--file", "events.ndjson", "--type", "n")
    assert done.stdout == "Appended 3 events to log orders.\n"
    empty = rowbus("log", "append", orders, "--lines", input="\n\n")
    assert empty.returncode == 1
    tick()

    assert [(event["type"], event["data"]) for event in found(rowbus, "log", "read", orders)] == [
        ("n", "1"),
        ("n", "2"),
        ("n", "3"),
    ]


@pytest.mark.one_version
def test_append_to_a_missing_log_fails_clearly(rowbus: CommandLine) -> None:
    for more in ((), ("--lines",)):
        done = rowbus("log", "append", "nowhere", "data", *more)
        assert done.returncode == 1
        assert "rowbus log create" in done.stderr
    assert rowbus("log", "append", "nowhere", "data", *(("--extra", "x") * 5)).returncode == 2


# -------------------------------------------------------------------------------------------------------------- read


def test_read_shows_a_range_of_ticks(
    rowbus: CommandLine, orders: str, ask: Ask, tick: Callable[[], int]
) -> None:
    ticks = []
    for number in range(3):
        ask("select pgq.insert_event('orders', 't', %s)", [str(number)])
        ticks.append(tick())

    def read(*arguments: str) -> list[str]:
        return [event["data"] for event in found(rowbus, "log", "read", orders, *arguments)]

    assert read() == ["0", "1", "2"]
    assert read("--limit", "2") == ["0", "1"]
    assert read("--from", str(ticks[0])) == ["1", "2"]
    assert read("--from", str(ticks[0]), "--to", str(ticks[1])) == ["1"]
    assert read("--from", "start", "--to", "end", "-n", "0") == ["0", "1", "2"]
    moment = ask("select tick_time from pgq.tick where tick_id = %s", ticks[1:2])[0][0]
    assert read("--from", moment.isoformat()) == ["2"]

    assert rowbus("log", "read", orders, "--from", "end").returncode == 1
    lost = rowbus("log", "read", orders, "--from", "999")
    assert lost.returncode == 1
    assert "is not retained" in lost.stderr
    assert rowbus("log", "read", orders, "--from", "yesterday").returncode == 2
    missing = rowbus("log", "read", "nowhere")
    assert missing.returncode == 1
    assert "rowbus log create" in missing.stderr


# -------------------------------------------------------------------------------------------------------- visibility


def test_list_shows_what_a_log_holds_and_what_waits(
    rowbus: CommandLine, orders: str, consumer: str, ask: Ask, tick: Callable[[], int]
) -> None:
    ask("select pgq.insert_event('orders', 't', 'd')")
    last = tick()

    (log,) = found(rowbus, "log", "list")
    assert (log["log"], log["last_tick"], log["consumers"], log["retries"], log["dead_letters"]) == (
        "orders",
        last,
        1,
        0,
        0,
    )
    assert log["bytes"] > 0
    assert log["tick_age"] < 60
    assert log["greatest_lag"] > 0
    assert log["rotation_blocked_since"] is None
    assert "orders" in rowbus("log", "list").stdout
    assert rowbus("log", "list", "nowhere").returncode == 1


def test_consumers_shows_real_pending_events_and_the_batch_in_hand(
    rowbus: CommandLine, orders: str, consumer: str, ask: Ask, tick: Callable[[], int]
) -> None:
    ask("select pgq.insert_event('orders', 't', 'd') from generate_series(1, 3)")
    with psycopg.connect(rowbus.database) as undone:
        undone.execute("select pgq.insert_event('orders', 't', 'd') from generate_series(1, 100)")
        undone.rollback()
    tick()
    (before,) = found(rowbus, "log", "consumers")
    batch = ask("select pgq.next_batch('orders', 'revenue')")[0][0]
    (after,) = found(rowbus, "log", "consumers", orders)

    assert (before["log"], before["consumer"], before["pending"], before["batch"]) == (
        "orders",
        "revenue",
        3,
        None,
    )
    assert after["batch"] == batch
    assert "revenue" in rowbus("log", "consumers").stdout
    assert rowbus("log", "create", "empty").returncode == 0
    assert rowbus("log", "consumers", "empty").returncode == 1
    assert "rowbus log create" in rowbus("log", "consumers", "nowhere").stderr


def test_lanes_of_a_consumer_are_listed_as_one_and_changed_when_all_have_come_to_one_tick(
    rowbus: CommandLine, orders: str, ask: Ask, tick: Callable[[], int]
) -> None:
    def come_to_the_end(*names: str) -> None:
        for name in names:
            ((batch,),) = ask("select pgq.next_batch('orders', %s)", [name])
            ask("select pgq.finish_batch(%s)", [batch])

    missing = rowbus("log", "lanes", orders, "billing", "2")
    ask("select pgq.register_consumer('orders', 'billing')")
    alone = rowbus("log", "lanes", orders, "billing", "1")
    begun = rowbus("log", "lanes", orders, "billing", "2")
    ask("select pgq.insert_event('orders', 't', 'd')")
    end = tick()
    come_to_the_end("billing#0")
    (listed,) = found(rowbus, "log", "consumers")
    each = found(rowbus, "log", "consumers", "--lanes")
    early = rowbus("log", "lanes", orders, "billing", "3")
    come_to_the_end("billing#1")
    ask("select pgq.insert_event('orders', 't', 'later')")
    tick()
    with psycopg.connect(rowbus.database) as holder:
        holder.execute("select pg_advisory_lock(hashtextextended(%s, 0))", [LANE_LOCK])
        busy = rowbus("log", "lanes", orders, "billing", "3")
    changed = rowbus("log", "lanes", orders, "billing", "3")

    assert (missing.returncode, alone.returncode, begun.returncode) == (1, 0, 0)
    assert (listed["consumer"], listed["lanes"], listed["pending"]) == ("billing", 2, 1)
    assert [one["consumer"] for one in each] == ["billing#0", "billing#1"]
    assert "its lanes have reached the ticks" in early.stderr
    assert "a process works on billing#1; stop it first" in busy.stderr
    assert changed.stdout == f"billing of log orders has 3 lanes, which go on behind tick {end}.\n"
    assert {(one["consumer"], one["last_tick"]) for one in found(rowbus, "log", "consumers", "--lanes")} == {
        (f"billing#{number}", end) for number in range(3)
    }


def test_doctor_warns_of_a_paused_ticker_and_of_dead_letters(
    rowbus: CommandLine, orders: str, consumer: str, ask: Ask, tick: Callable[[], int]
) -> None:
    assert _doctor(rowbus)['log "orders"']["level"] == "ok"
    _bury(ask, tick)
    assert rowbus("log", "config", orders, "ticker_paused=true").returncode == 0

    findings = _doctor(rowbus)
    assert findings['log "orders"']["level"] == "warn"
    assert "paused" in findings['log "orders"']["text"]
    dead = findings['consumer "revenue" of log "orders"']
    assert dead["level"] == "warn"
    assert "dead-letters" in dead["advice"]


def _doctor(rowbus: CommandLine) -> dict[str, dict[str, Any]]:
    done = rowbus("doctor", "--json")
    return {finding["subject"]: finding for finding in json.loads(done.stdout)}


# --------------------------------------------------------------------------------------------------------- consumers


def test_rewind_moves_a_consumer_and_says_from_where(
    rowbus: CommandLine, orders: str, consumer: str, ask: Ask, tick: Callable[[], int]
) -> None:
    first, second = tick(), tick()
    moment = ask("select tick_time from pgq.tick where tick_id = %s", [first])[0][0]

    def position() -> int:
        return int(ask("select sub_last_tick from pgq.subscription")[0][0])

    for to, tick_id in (
        ("end", second),
        ("start", 1),
        (str(first), first),
        ("end", second),
        (str(moment), first),
    ):
        before = position()
        done = rowbus("log", "rewind", orders, consumer, "--to", to)
        assert done.stdout == f"Moved revenue of log orders from tick {before} to tick {tick_id}.\n", (
            done.stderr
        )
        assert position() == tick_id

    for lost in ("0", "1000", "2020-01-01"):
        done = rowbus("log", "rewind", orders, consumer, "--to", lost)
        assert done.returncode == 1
        assert "not retained" in done.stderr
    unknown = rowbus("log", "rewind", orders, "nobody", "--to", "start")
    assert unknown.returncode == 1
    assert "rowbus log consumers" in unknown.stderr


def test_rewind_does_not_take_a_batch_away_unless_forced(
    rowbus: CommandLine, orders: str, consumer: str, ask: Ask, tick: Callable[[], int]
) -> None:
    tick()
    batch = ask("select pgq.next_batch('orders', 'revenue')")[0][0]

    refused = rowbus("log", "rewind", orders, consumer, "--to", "start")
    assert refused.returncode == 1
    assert f"batch {batch} in hand" in refused.stderr
    assert ask("select sub_batch from pgq.subscription") == [(batch,)]

    assert rowbus("log", "rewind", orders, consumer, "--to", "start", "--force").returncode == 0
    assert ask("select sub_batch from pgq.subscription") == [(None,)]


@pytest.mark.one_version
def test_unregister_removes_a_consumer(rowbus: CommandLine, orders: str, consumer: str, ask: Ask) -> None:
    assert rowbus("log", "unregister", orders, consumer).stdout == "Removed revenue from log orders.\n"
    assert ask("select count(*) from pgq.subscription") == [(0,)]
    assert rowbus("log", "unregister", orders, consumer).returncode == 1
    assert "rowbus log create" in rowbus("log", "unregister", "nowhere", consumer).stderr


# ------------------------------------------------------------------------------------------------------------ config


def test_config_shows_and_changes_settings_of_both_kinds(rowbus: CommandLine, orders: str, ask: Ask) -> None:
    done = rowbus("log", "config", orders, "ticker_max_lag=5 seconds", "tick_period=20 ms", "max_retries=3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ticker_max_lag of log orders is 00:00:05; it was 00:00:03.",
        "tick_period of log orders is 00:00:00.02; it was not set.",
        "max_retries of log orders is 3; it was not set.",
    ]

    settings = found(rowbus, "log", "config", orders)
    assert (settings["ticker_max_lag"], settings["tick_period"], settings["max_retries"]) == (
        "00:00:05",
        "00:00:00.02",
        "3",
    )
    assert rowbus("log", "config", orders, "max_retries=").returncode == 0
    assert found(rowbus, "log", "config", orders)["max_retries"] is None


@pytest.mark.one_version
def test_config_changes_all_or_nothing(rowbus: CommandLine, orders: str) -> None:
    assert rowbus("log", "config", orders, "ticker_max_count=7", "rotation_period=soon").returncode == 1
    assert found(rowbus, "log", "config", orders)["ticker_max_count"] == "500"
    impossible = ("rotation_period=-1 day", "ticker_max_count=-1", "tick_period=1000 years")
    for wrong in ("nonsense=1", "ticker_paused", "ticker_paused=", *impossible):
        assert rowbus("log", "config", orders, "max_retries=7", wrong).returncode == 2, wrong
    assert found(rowbus, "log", "config", orders)["max_retries"] is None
    assert rowbus("log", "config", "nowhere").returncode == 1


# ----------------------------------------------------------------------------------------------------------- capture


def test_capture_release_and_captures(
    rowbus: CommandLine, orders: str, ask: Ask, tick: Callable[[], int]
) -> None:
    ask('create table "Sales Orders" (id int primary key, note text)')
    assert rowbus("log", "captures").returncode == 1

    done = rowbus(
        "log", "capture", '"Sales Orders"', "--log", orders, "--format", "json", "--arg", "ignore=note"
    )
    assert done.returncode == 0, done.stderr
    assert "log orders as json" in done.stdout
    ask("insert into \"Sales Orders\" values (1, 'x')")
    tick()

    (event,) = found(rowbus, "log", "read", orders)
    assert json.loads(event["data"]) == {"id": 1}
    (capture,) = found(rowbus, "log", "captures")
    assert (capture["log"], capture["table"], capture["format"], capture["arguments"]) == (
        "orders",
        '"Sales Orders"',
        "json",
        ["exact", "cause", "whole-row", "ignore=note"],
    )
    assert "Sales Orders" in rowbus("log", "captures", orders).stdout

    assert rowbus("log", "ddl", orders).returncode == 1
    ask('alter table "Sales Orders" add column total numeric')
    (told,) = found(rowbus, "log", "ddl", orders)
    assert (told["table"], told["change"]["after"]["columns"][1]["name"]) == ("public.Sales Orders", "total")
    assert "+ total numeric" in rowbus("log", "ddl", orders).stdout
    assert "nowhere" in rowbus("log", "ddl", "nowhere").stderr

    released = rowbus("log", "release", '"Sales Orders"', "--log", orders)
    assert (released.returncode, "dropped 2 triggers" in released.stdout) == (0, True)
    assert rowbus("log", "release", '"Sales Orders"', "--log", orders).returncode == 1
    assert ask("select count(*) from pg_trigger where tgname like 'capture%'") == [(0,)]


@pytest.mark.one_version
def test_capture_names_what_is_missing(rowbus: CommandLine, orders: str, ask: Ask) -> None:
    ask("create table here (id int)")
    no_table = rowbus("log", "capture", "gone", "--log", orders)
    assert no_table.returncode == 1
    assert '"gone" does not exist' in no_table.stderr
    no_log = rowbus("log", "capture", "here", "--log", "nowhere")
    assert no_log.returncode == 1
    assert "nowhere" in no_log.stderr
    assert rowbus("log", "capture", "here", "--log", orders, "--format", "xml").returncode == 2
    ask("create table typed (id int primary key, email text)")
    typed = rowbus("log", "capture", "typed", "--log", orders, "--arg", "ignore=emial")
    assert typed.returncode == 1
    assert "typed has no column emial (ignore=), but id, email" in typed.stderr


# ------------------------------------------------------------------------------------------------------ dead letters


def _bury(ask: Ask, tick: Callable[[], int]) -> None:
    """Have the consumer give up on three events."""
    ask("select pgq.insert_event('orders', 'placed', n::text) from generate_series(1, 3) as n")
    tick()
    batch = ask("select pgq.next_batch('orders', 'revenue')")[0][0]
    ids = [number for (number,) in ask("select ev_id from pgq.get_batch_events(%s)", [batch])]
    ask("select pgq.events_dead(%s, %s::bigint[], %s::text[])", [batch, ids, ["it is broken"] * 3])
    ask("select pgq.finish_batch(%s)", [batch])


def test_dead_letters_are_listed_replayed_and_purged(
    rowbus: CommandLine, orders: str, consumer: str, ask: Ask, tick: Callable[[], int]
) -> None:
    assert rowbus("log", "dead-letters", "list", orders, consumer).returncode == 1
    ask("select pgq.register_consumer('orders', 'wide#0'), pgq.register_consumer('orders', 'wide#1')")
    for verb in (["list"], ["replay"], ["purge", "--yes"]):
        assert (
            "its lanes, each by itself: wide#0, wide#1"
            in rowbus("log", "dead-letters", *verb, orders, "wide").stderr
        )
    _bury(ask, tick)

    dead = found(rowbus, "log", "dead-letters", "list", orders, consumer)
    assert [(letter["reason"], letter["event"]["data"]) for letter in dead] == [
        ("it is broken", str(number)) for number in range(1, 4)
    ]
    assert "it is broken" in rowbus("log", "dead-letters", "list", orders, consumer).stdout

    replayed = rowbus("log", "dead-letters", "replay", orders, consumer, str(dead[0]["id"]))
    assert replayed.stdout == "1 dead letter of revenue will be delivered again.\n"
    assert ask("select ev_data from pgq.retry_queue") == [("1",)]
    assert rowbus("log", "dead-letters", "purge", orders, consumer).returncode == 2
    assert (
        rowbus("log", "dead-letters", "purge", orders, consumer, "--yes", "--before", "2020-01-01").returncode
        == 1
    )
    purged = rowbus("log", "dead-letters", "purge", orders, consumer, "--yes")
    assert purged.stdout == "Deleted 2 dead letters of revenue.\n"
    assert rowbus("log", "dead-letters", "replay", orders, consumer).returncode == 1


# ------------------------------------------------------------------------------------------------------------ bridge


def test_a_queue_is_drained_into_a_log_and_sent_back_as_it_was(
    rowbus: CommandLine, orders: str, ask: Ask, tick: Callable[[], int], await_rows: AwaitRows
) -> None:
    rowbus("queue", "create", "error", "Sales")
    for number in range(3):
        rowbus("queue", "send", "error", f'{{"n":{number}}}', "--type", "Shop.Order")
    there = ask("select headers, body from error order by seq")

    done = rowbus("log", "from-queue", "error", "--log", orders)
    assert done.stdout == f"Moved 3 messages from {table('error')} to log orders.\n", done.stderr
    assert rowbus("log", "from-queue", "error", "--log", orders).returncode == 1
    tick()

    bridge = rowbus.start("log", "to-queue", orders, "Sales", "--consumer", "bridge", "--from-oldest")
    await_rows('select count(*) from "Sales"', 3)
    bridge.tell(signal.SIGTERM)
    assert bridge.wait() == 0
    back = ask('select headers, body from "Sales" order by seq')
    assert [(json.loads(headers), body) for headers, body in back] == [
        (json.loads(headers), body) for headers, body in there
    ]


@pytest.mark.one_version
def test_following_a_queue_moves_what_comes_until_it_is_told_to_end(
    rowbus: CommandLine, orders: str, ask: Ask, await_rows: AwaitRows
) -> None:
    rowbus("queue", "create", "audit")
    drain = rowbus.start("log", "from-queue", "audit", "--log", orders, "--follow")
    rowbus("queue", "send", "audit", "{}", "--type", "Shop.Order")
    await_rows("select count(*) from pgq.event_1", 1)

    drain.tell(signal.SIGTERM)
    assert drain.wait() == 0
    drain.wait_for("Moved 1 message from")
    assert ask("select count(*) from audit") == [(0,)]


@pytest.mark.one_version
def test_bridges_name_what_is_missing(rowbus: CommandLine, orders: str) -> None:
    rowbus("queue", "create", "error")
    no_queue = rowbus("log", "from-queue", "nowhere", "--log", orders)
    assert no_queue.returncode == 1
    assert "rowbus queue create" in no_queue.stderr
    rowbus("queue", "send", "error", "{}", "--type", "Shop.Order")
    no_log = rowbus("log", "from-queue", "error", "--log", "nowhere")
    assert no_log.returncode == 1
    assert "rowbus log create" in no_log.stderr
    assert rowbus("log", "to-queue", "nowhere", "error", "--consumer", "x").returncode == 1
