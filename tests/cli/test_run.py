"""`rowbus run`: one process or several serve an endpoint, and nothing is lost whichever way they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import rowbus as library
from tests.fixtures.command_line import Ask, CommandLine, Running, has_ended
from tests.fixtures.processes import await_that

SHOP = '''
import asyncio, datetime, os, pathlib, signal, threading, time
import rowbus

endpoint = rowbus.Endpoint("Sales")


def made() -> rowbus.Endpoint:
    return endpoint


RECORD = "insert into done values (%s, %s)"


@endpoint.handler("Count")
async def count(message: dict, context: rowbus.Context) -> None:
    await context.connection.execute(RECORD, (message["n"], os.getpid()))
    await asyncio.sleep(0.01)


@endpoint.handler("Wait")
async def wait(message: dict, context: rowbus.Context) -> None:
    """Say that we are here, and end when the file `go` is there."""
    print("handling", message["n"], "in", os.getpid(), flush=True)
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    await context.connection.execute(RECORD, (message["n"], os.getpid()))


@endpoint.handler("Block")
def block(message: dict, context: rowbus.SyncContext) -> None:
    print("handling", message["n"], "in", os.getpid(), flush=True)
    time.sleep(10**6)


@endpoint.handler("BlockTooLong", time_limit=datetime.timedelta(seconds=0.2))
def block_too_long(message: dict, context: rowbus.SyncContext) -> None:
    time.sleep(10**6)


@endpoint.handler("BlockInDatabase")
def block_in_database(message: dict, context: rowbus.SyncContext) -> None:
    print("handling", message["n"], "in", os.getpid(), flush=True)
    context.connection.execute("select pg_sleep(10000)")


@endpoint.handler("Die")
async def die(message: dict, context: rowbus.Context) -> None:
    with open("deaths", "a") as deaths:
        print(message["n"], file=deaths, flush=True)
    os.kill(os.getpid(), signal.SIGKILL) if message["n"] % 2 else os._exit(3)


log = rowbus.Log(None, "orders")


@log.consumer("blocked")
def block_the_log(event: rowbus.Event) -> None:
    print("handling", event.data, "in", os.getpid(), flush=True)
    threading.Event().wait()
'''

EMBEDDED = """
import asyncio, signal, sys
from shop import endpoint, log


async def main() -> None:
    service = {"endpoint": endpoint, "log": log}[sys.argv[1]]
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
    async with service:
        try:
            await told.wait()
        finally:
            print("leaving", flush=True)
        await service.stop(timeout=0)
    print("stopped", flush=True)


asyncio.run(main())
"""

IN_CONSUMER = r"handling 42 in"
HANDLING = r"handling (\d+) in (\d+)"
WORKER = r"Worker (\d+) is process (\d+)"
RECEIVING = "Endpoint Sales is receiving"
DRAINING = "finishing what is in hand"

AwaitRows = Callable[[str, int], None]


@pytest.fixture
def shop(rowbus: CommandLine, ask: Ask) -> CommandLine:
    """Give a command line in a folder with an endpoint, whose queues and table exist."""
    (rowbus.folder / "shop.py").write_text(SHOP)
    ask("create table done (n integer, pid integer)")
    assert rowbus("schema", "install", "shop:endpoint").returncode == 0
    return rowbus


@pytest.fixture
def log_shop(shop: CommandLine, ask: Ask) -> CommandLine:
    """Give the same with a log, in which there is an event for its consumer, and a ticker that runs."""
    assert shop("log", "install").returncode == 0
    ask("select pgq.create_queue('orders'); select pgq.register_consumer('orders', 'blocked')")
    ask("select pgq.insert_event('orders', 'order_placed', '42')")
    shop.start("ticker")
    return shop


def send(shop: CommandLine, kind: str, *numbers: int) -> None:
    with psycopg.connect(shop.database) as connection:
        library.Client(connection).send_many("Sales", ({"n": number} for number in numbers), type=kind)


def waiting(ask: Ask) -> int:
    return int(ask('select count(*) from "Sales"')[0][0])


def free(ask: Ask) -> int:
    """Count the messages that a receiver could take now."""
    return len(ask('select 1 from "Sales" for update skip locked'))


def done(ask: Ask) -> list[int]:
    return [row[0] for row in ask("select n from done order by n")]


def pids(matches: list[re.Match[str]]) -> list[int]:
    return [int(match[2]) for match in matches]


# ------------------------------------------------------------------------------------------------------- one process


@pytest.mark.parametrize("target", ["shop:endpoint", "shop:made"])
def test_one_process_serves_until_it_is_told_to_drain(
    shop: CommandLine, ask: Ask, await_rows: AwaitRows, target: str
) -> None:
    send(shop, "Count", 1, 2, 3)

    serving = shop.start("run", target, "--concurrency", "1", "--batch-size", "2")
    await_rows("select count(*) from done", 3)
    serving.tell(signal.SIGTERM)

    assert serving.wait() == 0
    assert done(ask) == [1, 2, 3]


@pytest.mark.one_version
def test_draining_finishes_what_is_in_hand_and_takes_no_more(shop: CommandLine, ask: Ask) -> None:
    send(shop, "Wait", 1, 2)
    serving = shop.start("run", "shop:endpoint", "--concurrency", "1")
    serving.wait_for(HANDLING)

    serving.tell(signal.SIGINT)
    serving.wait_for(DRAINING)
    (shop.folder / "go").touch()

    assert serving.wait() == 0
    assert done(ask) == [1]
    assert waiting(ask) == 1


@pytest.mark.one_version
def test_a_second_signal_ends_a_start_that_waits(shop: CommandLine, ask: Ask) -> None:
    with psycopg.connect(shop.database) as other:
        other.execute('lock table "Sales.Delayed"')
        serving = shop.start("run", "shop:endpoint")
        await_that(
            lambda: bool(ask("select 1 from pg_stat_activity where wait_event_type = 'Lock'")),
            "the start to wait",
        )

        serving.tell(signal.SIGTERM)
        serving.wait_for(DRAINING)
        serving.tell(signal.SIGTERM)

        assert serving.wait() == 0


@pytest.mark.one_version
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["Wait", "Block"])
def test_a_second_signal_stops_at_once_and_what_was_in_hand_goes_back(
    shop: CommandLine, ask: Ask, kind: str, workers: int
) -> None:
    send(shop, kind, 1)
    serving = shop.start("run", "shop:endpoint", "--workers", str(workers))
    handling = serving.wait_for(HANDLING)

    serving.tell(signal.SIGTERM)
    serving.wait_for(DRAINING, times=workers)
    serving.tell(signal.SIGTERM)

    assert serving.wait() == 1
    assert all(map(has_ended, pids(handling)))
    assert waiting(ask) == 1


@pytest.mark.one_version
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["Wait", "Block", "BlockInDatabase"])
def test_after_the_time_to_drain_it_ends_and_what_was_in_hand_goes_back(
    shop: CommandLine, ask: Ask, kind: str, workers: int
) -> None:
    send(shop, kind, 1)
    serving = shop.start("run", "shop:endpoint", "--workers", str(workers), "--drain", "0.2")
    handling = serving.wait_for(HANDLING)

    serving.tell(signal.SIGTERM)

    assert serving.wait() == 1
    assert all(map(has_ended, pids(handling)))
    await_that(lambda: free(ask) == 1, "the message to be in its queue, and not in a session's hands")


@pytest.mark.one_version
def test_a_time_to_drain_that_is_enough_interrupts_nothing(shop: CommandLine, ask: Ask) -> None:
    send(shop, "Wait", 1)
    serving = shop.start("run", "shop:endpoint", "--drain", "600")
    serving.wait_for(HANDLING)

    serving.tell(signal.SIGTERM)
    serving.wait_for(DRAINING)
    (shop.folder / "go").touch()

    assert serving.wait() == 0
    assert done(ask) == [1]


@pytest.mark.one_version
def test_a_blocked_consumer_of_a_log_ends_after_the_time_to_drain(log_shop: CommandLine, ask: Ask) -> None:
    serving = log_shop.start("run", "shop:log", "--drain", "0.2")
    serving.wait_for(IN_CONSUMER)

    serving.tell(signal.SIGTERM)
    assert serving.wait() == 1

    again = log_shop.start("run", "shop:log")
    again.wait_for(IN_CONSUMER)


@pytest.mark.one_version
@pytest.mark.parametrize("kind", ["Block", "BlockInDatabase"])
def test_a_program_of_ones_own_ends_though_a_handler_does_not(shop: CommandLine, ask: Ask, kind: str) -> None:
    send(shop, kind, 1)
    serving = shop.start_python(EMBEDDED, "endpoint")
    serving.wait_for(HANDLING)

    serving.tell(signal.SIGUSR1)

    serving.wait_for("stopped")
    assert serving.wait() == 0
    await_that(lambda: free(ask) == 1, "the message to be in its queue, and not in a session's hands")


@pytest.mark.one_version
def test_a_program_of_ones_own_ends_though_a_consumer_does_not(log_shop: CommandLine) -> None:
    serving = log_shop.start_python(EMBEDDED, "log")
    serving.wait_for(IN_CONSUMER)

    serving.tell(signal.SIGUSR1)

    serving.wait_for("stopped")
    assert serving.wait() == 0


@pytest.mark.one_version
def test_control_c_again_ends_a_program_of_ones_own(shop: CommandLine, ask: Ask) -> None:
    """One that comes before the stop has begun interrupts that alone; the next one ends the program."""
    send(shop, "Block", 1)
    serving = shop.start_python(EMBEDDED, "endpoint")
    serving.wait_for(HANDLING)

    serving.tell(signal.SIGINT)
    serving.wait_for("leaving")
    for _again in range(2):
        with suppress(subprocess.TimeoutExpired):
            serving.tell(signal.SIGINT)
            serving.process.wait(10)
            break

    assert serving.wait() != 0
    await_that(lambda: free(ask) == 1, "the message to be in its queue, and not in a session's hands")


@pytest.mark.one_version
def test_without_install_a_missing_queue_is_an_error(rowbus: CommandLine, ask: Ask) -> None:
    (rowbus.folder / "shop.py").write_text(SHOP)

    for workers in ("1", "2"):
        failed = rowbus("run", "shop:endpoint", "--no-install", "--workers", workers)
        assert failed.returncode == 1
        assert '"public"."Sales" does not exist' in failed.stderr
    assert ask("select to_regclass('\"Sales\"')") == [(None,)]


@pytest.mark.one_version
@pytest.mark.parametrize(
    "target, explanation",
    [
        ("shop:missing", "shop has nothing called 'missing'; there is endpoint"),
        (
            "shop:RECORD",
            "neither a rowbus.Endpoint or a rowbus.Log nor a function that returns one, but a str",
        ),
        ("broken:endpoint", "Importing broken failed: ZeroDivisionError"),
    ],
)
def test_a_target_that_is_no_endpoint_is_explained(shop: CommandLine, target: str, explanation: str) -> None:
    (shop.folder / "broken.py").write_text("1 / 0")

    failed = shop("run", target)

    assert failed.returncode == 2
    assert explanation in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "Traceback" in shop("run", target, "-v").stderr or target != "broken:endpoint"


@pytest.mark.one_version
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_database_option_beats_the_endpoints_own(
    shop: CommandLine, ask: Ask, await_rows: AwaitRows, workers: str
) -> None:
    own = SHOP.replace('Endpoint("Sales")', 'Endpoint("Sales", database="host=127.0.0.1 port=1")')
    (shop.folder / "shop.py").write_text(own)
    send(shop, "Count", 1)

    serving = shop.start("run", "shop:endpoint", "--workers", workers, "--database", shop.database)

    await_rows("select count(*) from done", 1)
    serving.tell(signal.SIGTERM)
    assert serving.wait() == 0


# --------------------------------------------------------------------------------------------------- several workers


@pytest.mark.slow
def test_workers_share_the_work_and_draining_loses_nothing(
    shop: CommandLine, ask: Ask, await_rows: AwaitRows
) -> None:
    send(shop, "Count", *range(300))

    serving = shop.start("run", "shop:endpoint", "--workers", "3", "--concurrency", "2")
    serving.wait_for(RECEIVING, times=3)
    await_rows("select count(*) from done", 100)
    serving.tell(signal.SIGTERM)

    assert serving.wait() == 0
    assert len(done(ask)) + waiting(ask) == 300
    assert len(set(done(ask))) == len(done(ask))

    send(shop, "Count", *range(300, 330))
    again = shop.start("run", "shop:endpoint", "--workers", "3", "--concurrency", "2")
    await_rows("select count(*) from done", 330)
    again.tell(signal.SIGTERM)

    assert again.wait() == 0
    assert done(ask) == list(range(330))
    assert len(ask("select distinct pid from done")) > 1


def test_a_worker_killed_is_replaced_and_its_message_delivered_again(
    shop: CommandLine, ask: Ask, await_rows: AwaitRows
) -> None:
    serving = shop.start("run", "shop:endpoint", "--workers", "2")
    serving.wait_for(RECEIVING, times=2)
    send(shop, "Wait", 1)
    victim = pids(serving.wait_for(HANDLING))[0]

    os.kill(victim, signal.SIGKILL)
    serving.wait_for(rf"Worker \d \(process {victim}\) was killed by SIGKILL; starting another")
    assert victim not in pids(serving.wait_for(HANDLING, times=2))[1:]
    serving.wait_for(RECEIVING, times=3)
    (shop.folder / "go").touch()
    await_rows("select count(*) from done", 1)
    serving.tell(signal.SIGTERM)

    assert serving.wait() == 0
    assert done(ask) == [1]
    assert waiting(ask) == 0


@pytest.mark.one_version
def test_control_c_in_a_terminal_drains_workers_once(shop: CommandLine, ask: Ask) -> None:
    """The terminal signals every process of the group; were the workers in it, they would be told twice."""
    send(shop, "Wait", 1)
    serving = shop.start("run", "shop:endpoint", "--workers", "2")
    serving.wait_for(RECEIVING, times=2)
    serving.wait_for(HANDLING)

    serving.tell_group(signal.SIGINT)
    serving.wait_for(DRAINING, times=3)
    (shop.folder / "go").touch()

    assert serving.wait() == 0
    assert done(ask) == [1]


@pytest.mark.one_version
def test_a_worker_that_does_not_react_is_killed_at_the_second_signal(shop: CommandLine) -> None:
    serving = shop.start("run", "shop:endpoint", "--workers", "2")
    stuck = pids(serving.wait_for(WORKER, times=2))[0]
    serving.wait_for(RECEIVING, times=2)
    os.kill(stuck, signal.SIGSTOP)

    serving.tell(signal.SIGTERM)
    serving.wait_for(DRAINING, times=2)
    serving.tell(signal.SIGTERM)

    assert serving.wait() == 1
    assert has_ended(stuck)


@pytest.mark.one_version
def test_queues_are_purged_once_and_not_by_each_worker(
    shop: CommandLine, ask: Ask, await_rows: AwaitRows
) -> None:
    purging = 'Endpoint("Sales", settings=rowbus.EndpointSettings(purge_on_startup=True, concurrency=1))'
    (shop.folder / "shop.py").write_text(SHOP.replace('Endpoint("Sales")', purging))
    send(shop, "Wait", 100, 101)

    serving = shop.start("run", "shop:endpoint", "--workers", "2")
    serving.wait_for("2 messages purged")
    serving.wait_for(RECEIVING, times=2)
    send(shop, "Wait", *range(5))
    victim = pids(serving.wait_for(HANDLING, times=2))[0]
    os.kill(victim, signal.SIGKILL)
    serving.wait_for(RECEIVING, times=3)
    (shop.folder / "go").touch()

    await_rows("select count(*) from done", 5)
    serving.tell(signal.SIGTERM)
    assert serving.wait() == 0
    assert done(ask) == [0, 1, 2, 3, 4]


def test_workers_end_when_their_supervisor_is_killed_and_finish_what_is_in_hand(
    shop: CommandLine, ask: Ask
) -> None:
    serving = shop.start("run", "shop:endpoint", "--workers", "2", "--concurrency", "1")
    workers = pids(serving.wait_for(WORKER, times=2))
    serving.wait_for(RECEIVING, times=2)
    send(shop, "Wait", 1)
    busy = pids(serving.wait_for(HANDLING))[0]

    serving.tell(signal.SIGKILL)
    serving.wait_for(DRAINING, times=2)
    (shop.folder / "go").touch()

    assert all(map(has_ended, workers))
    assert ask("select n, pid from done") == [(1, busy)]


@pytest.mark.one_version
def test_the_connection_string_of_workers_is_not_on_their_command_line(
    shop: CommandLine, database: str
) -> None:
    secret = make_conninfo(database, application_name="geheim")

    serving = shop.start("run", "shop:endpoint", "--workers", "2", "--database", secret)
    workers = pids(serving.wait_for(WORKER, times=2))
    serving.wait_for(RECEIVING, times=2)

    for worker in workers:
        assert b"geheim" not in Path(f"/proc/{worker}/cmdline").read_bytes()
        assert b"geheim" in Path(f"/proc/{worker}/environ").read_bytes()


@pytest.mark.slow
@pytest.mark.one_version
def test_workers_that_die_at_once_are_replaced_ever_more_slowly(shop: CommandLine) -> None:
    dying = 'import os, sys\nif "--batch-size=1" in sys.argv:\n    os._exit(3)\n' + SHOP
    (shop.folder / "shop.py").write_text(dying)

    serving = shop.start("run", "shop:endpoint", "--workers", "2")
    deaths = serving.wait_for(r"Worker 1 .* ended with code 3; starting another in (\S+) s", times=3)
    serving.tell(signal.SIGTERM)

    assert [float(death[1]) for death in deaths] == [0.1, 0.2, 0.4]
    assert serving.wait() in {0, 1}  # 1: a worker died once more, after it was told to stop


def retried_once(shop: CommandLine) -> None:
    policy = 'Endpoint("Sales", recoverability=rowbus.Recoverability(immediate=1, delayed=0))'
    shop_text = (shop.folder / "shop.py").read_text().replace('Endpoint("Sales")', policy)
    (shop.folder / "shop.py").write_text(shop_text)


@pytest.mark.slow
@pytest.mark.one_version
def test_a_worker_is_replaced_whose_threads_are_left_to_themselves_when_it_has_dealt_with_what_they_handled(
    shop: CommandLine, ask: Ask, await_rows: AwaitRows
) -> None:
    retried_once(shop)
    serving = shop.start("run", "shop:endpoint", "--workers", "2", "--concurrency", "3")
    send(shop, "Wait", 1)
    ((_, first),) = (line.groups() for line in serving.wait_for(r"handling (1) in (\d+)"))
    send(shop, "BlockTooLong", 2, 3, 4, 5)
    await_rows("select count(*) from error", 4)
    (shop.folder / "go").touch()
    (death,) = serving.wait_for(r"Worker \d \(process (\d+)\) ended with code 0; starting another")
    send(shop, "Count", *range(HEALTHY))
    await_rows("select count(*) from done", 1 + HEALTHY)
    serving.tell(signal.SIGTERM)

    assert serving.wait() == 0
    assert (1, int(first)) in ask("select n, pid from done")
    assert int(death[1]) not in {pid for _, pid in ask("select n, pid from done where n <> 1")}


@pytest.mark.one_version
def test_a_stop_does_not_interrupt_a_worker_that_drains_to_be_replaced(
    shop: CommandLine, ask: Ask, await_rows: AwaitRows
) -> None:
    retried_once(shop)
    serving = shop.start("run", "shop:endpoint", "--workers", "2", "--concurrency", "2")
    supervisor = serving.process.pid
    send(shop, "Wait", 1)
    ((_, first),) = (line.groups() for line in serving.wait_for(r"handling (1) in (\d+)"))
    send(shop, "BlockTooLong", *range(2, 10))  # more than the other worker takes before this one looks
    serving.wait_for(rf"\[{first}\].*{DRAINING}")
    serving.tell(signal.SIGTERM)
    serving.wait_for(rf"\[{supervisor}\].*{DRAINING}")
    (shop.folder / "go").touch()

    assert serving.wait() == 0
    assert ask("select n, pid from done") == [(1, int(first))]


# ------------------------------------------------------------------------------------- messages that kill their worker

DYING = [1, 2, 3]
HEALTHY = 100


@pytest.mark.slow
@pytest.mark.one_version
def test_messages_that_kill_their_worker_are_in_the_error_queue_after_the_policys_number(
    shop: CommandLine, ask: Ask, await_rows: AwaitRows
) -> None:
    policy = 'Endpoint("Sales", recoverability=rowbus.Recoverability(immediate=2, delayed=0))'
    shop_text = (shop.folder / "shop.py").read_text().replace('Endpoint("Sales")', policy)
    (shop.folder / "shop.py").write_text(shop_text)
    send(shop, "Die", *DYING)
    send(shop, "Count", *range(HEALTHY))

    serving = shop.start("run", "shop:endpoint", "--workers", "2", "--concurrency", "4")
    await_rows("select count(*) from error", len(DYING))
    await_rows("select count(*) from done", HEALTHY)
    serving.tell(signal.SIGTERM)

    assert serving.wait() == 0
    assert sorted(done(ask)) == list(range(HEALTHY))
    assert waiting(ask) == 0
    deaths = [int(line) for line in (shop.folder / "deaths").read_text().split()]
    for n in DYING:  # proven three times, and suspected at most as often as another was in hand beside it
        assert 3 <= deaths.count(n) <= 3 + len(DYING), deaths
    said = [row[0] for row in ask("select headers::json ->> 'NServiceBus.ExceptionInfo.Message' from error")]
    # Two workers may die of one message before the first death is counted, so a fourth is counted now and then.
    assert all(re.search(r"failed [34] times", text) for text in said), said
    assert sum("was killed by SIGKILL" in text for text in said) == 2
    assert sum("ended with code 3" in text for text in said) == 1
    assert "starting another in 0.8 s" not in "\n".join(serving.lines)


PAUSED = """
import rowbus

endpoint = rowbus.Endpoint("Sales", settings=rowbus.EndpointSettings(concurrency=4))
log = rowbus.Log(None, "orders")


@endpoint.handler("Shop.Place")
async def place(message: dict[str, object], context: rowbus.Context) -> None:
    await context.connection.execute("insert into done values ('message')")


@log.consumer("revenue")
async def add(event: rowbus.Event, context: rowbus.LogContext) -> None:
    await context.connection.execute("insert into done values ('event')")
"""


def test_what_is_paused_begins_nothing_also_after_a_restart_until_it_is_resumed(
    rowbus: CommandLine, ask: Ask, await_rows: Callable[[str, int], None]
) -> None:
    (rowbus.folder / "paused.py").write_text(PAUSED)
    ask("create table done (what text)")
    assert rowbus("log", "install").returncode == 0
    assert rowbus("log", "create", "orders").returncode == 0
    running = [rowbus.start("run", f"paused:{name}") for name in ("endpoint", "log")]
    rowbus.start("ticker")
    running[0].wait_for("is receiving from")
    running[1].wait_for("is at work")

    def work() -> None:
        ask(
            """insert into "Sales" (id, headers, body) values (gen_random_uuid(),
            '{"NServiceBus.EnclosedMessageTypes": "Shop.Place"}', convert_to('{}', 'utf8'))"""
        )
        ask("select pgq.insert_event('orders', 'placed', '{}')")

    def is_told(process: Running, text: str) -> bool:
        work()
        return process.tells(text)

    work()
    await_rows("select count(*) from done", 2)
    for what in (("endpoint", "Sales"), ("consumer", "orders/revenue")):
        assert rowbus("pause", *what, "--why", "a deploy").returncode == 0
    await_that(lambda: is_told(running[0], "The endpoint Sales is paused"), "the endpoint's pause")
    await_that(lambda: is_told(running[1], "The consumer orders/revenue is paused"), "the consumer's pause")
    again = rowbus.start("run", "paused:endpoint")
    again.wait_for("The endpoint Sales is paused")
    listed = json.loads(rowbus("pause", "--json").stdout)
    assert ask('select count(*) > 0 from "Sales"') == [(True,)]
    ask("""update "Rowbus.Pauses" set until = now() where kind = 'consumer'""")
    assert rowbus("resume", "endpoint", "Sales").returncode == 0
    running[1].wait_for("The consumer orders/revenue is resumed")
    again.wait_for("The endpoint Sales is resumed")
    await_that(lambda: ask('select count(*) from "Sales"') == [(0,)], "the messages that waited")

    assert [(one["kind"], one["name"], one["why"]) for one in listed] == [
        ("consumer", "orders/revenue", "a deploy"),
        ("endpoint", "Sales", "a deploy"),
    ]
    assert rowbus("resume", "endpoint", "Sales").returncode == 1


def test_the_number_of_workers_follows_an_operator_while_they_run_and_after_a_restart(
    shop: CommandLine, ask: Ask
) -> None:
    def scale(*options: str) -> None:
        assert shop("endpoint", "scale", "Sales", *options).returncode == 0

    serving = shop.start("run", "shop:endpoint", "--workers", "2")
    serving.wait_for("Worker 2 is process")
    assert shop("endpoint", "scale", "Sales").returncode == 1
    assert shop("endpoint", "scale", "Sales", "--workers", "3").returncode == 2  # it says not why
    scale("--workers", "3", "--why", "a rush")
    third = int(serving.wait_for(r"Worker 3 is process (\d+)")[0][1])
    scale("--workers", "1", "--concurrency", "5", "--limit", "Shop.A=2", "--why", "a calm", "--for", "1h")
    for wrong in ("Shop.A", "=2", "Shop.A=", "Shop.A=0", "Shop.A=1001", "Shop.A=٣"):
        assert shop("endpoint", "scale", "Sales", "--limit", wrong, "--why", "a mistake").returncode == 2
    await_that(lambda: has_ended(third), "the third worker")
    again = shop.start("run", "shop:endpoint", "--workers", "2")
    again.wait_for("Endpoint Sales: workers 1, by an operator")
    listed = shop("endpoint", "scale", "Sales").stdout
    scale("--reset")
    serving.wait_for("Worker 2 is process", times=2)

    for process in (serving, again):
        process.tell(signal.SIGTERM)
        assert process.wait() == 0
    assert ["a calm" in line for line in listed.splitlines()] == [False, True, True, True]
    assert ask("""select action, subject from "Rowbus.Operations" order by began""") == [
        ("scale", "workers of Sales: 3, a rush"),
        ("scale", "concurrency of Sales: 5, a calm"),
        ("scale", "workers of Sales: 1, a calm"),
        ("scale", "limit of Sales/Shop.A: 2, a calm"),
        ("end a scale", "concurrency of Sales"),
        ("end a scale", "limit of Sales/Shop.A"),
        ("end a scale", "workers of Sales"),
    ]


# --------------------------------------------------------------------------------------------------------- reloading


def test_a_changed_program_is_served_again_after_what_is_in_hand_and_a_mistake_waits_for_its_correction(
    shop: CommandLine, await_rows: AwaitRows
) -> None:
    program = shop.folder / "shop.py"
    send(shop, "Wait", 1)
    serving = shop.start("run", "shop:endpoint", "--reload")
    serving.wait_for("handling 1 in ")

    program.write_text("def")
    serving.wait_for("shop.py changed: starting again")
    (shop.folder / "go").touch()
    await_rows("select count(*) from done where n = 1", 1)  # it drained
    serving.wait_for("It ended with code 2: waiting for a change")
    program.write_text(SHOP.replace('handling"', 'handling anew"'))
    send(shop, "Wait", 2)
    serving.wait_for("handling anew 2 in ")

    serving.tell(signal.SIGTERM)
    assert serving.wait() == 0
