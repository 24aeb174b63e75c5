"""`rowbus ticker`: one process leads, others stand by, and from cron it does what is due."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest

from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from tests.fixtures.command_line import Ask, CommandLine

LEADING = "Leading: driving the logs of"
STANDING_BY = "Standing by: another ticker"
TICKS = "select count(*) from pgq.tick"

AwaitRows = Callable[[str, int], None]

pytestmark = pytest.mark.one_version


@pytest.fixture
def logs(rowbus: CommandLine, ask: Ask) -> CommandLine:
    """Give a command line on a database with a log and a consumer."""
    with Database(rowbus.database).session() as session:
        install_now(session)
    ask("select pgq.create_queue('orders')")
    ask("select pgq.register_consumer('orders', 'audit')")
    return rowbus


def test_it_ticks_until_it_is_told_to_stop(logs: CommandLine, ask: Ask, await_rows: AwaitRows) -> None:
    running = logs.start("ticker")
    running.wait_for(LEADING)
    for _ in range(3):
        ticks = ask(TICKS)[0][0]
        ask("select pgq.insert_event('orders', 'placed', '{}')")
        await_rows(TICKS, ticks + 1)

    running.tell(signal.SIGTERM)

    assert running.wait() == 0
    # the server ends a session a moment after its client has gone
    await_rows("select (count(*) = 0)::int from pg_stat_activity where application_name = 'rowbus ticker'", 1)


def test_one_that_stands_by_says_so_and_takes_over_when_the_leader_is_killed(
    logs: CommandLine, ask: Ask, await_rows: AwaitRows
) -> None:
    leader = logs.start("ticker")
    leader.wait_for(LEADING)
    standby = logs.start("ticker")
    standby.wait_for(STANDING_BY)
    assert not any(LEADING in line for line in standby.lines)

    leader.tell(signal.SIGKILL)

    standby.wait_for(LEADING)
    ticks = ask(TICKS)[0][0]
    ask("select pgq.insert_event('orders', 'placed', '{}')")
    await_rows(TICKS, ticks + 1)
    standby.tell(signal.SIGINT)
    assert standby.wait() == 0


def test_another_takes_over_from_a_leader_that_is_frozen(logs: CommandLine) -> None:
    frozen = logs.start("ticker", "--silence-timeout", "1")
    frozen.wait_for(LEADING)
    standby = logs.start("ticker")
    standby.wait_for(STANDING_BY)

    os.kill(frozen.pid, signal.SIGSTOP)

    standby.wait_for(LEADING)
    os.kill(frozen.pid, signal.SIGCONT)
    frozen.wait_for(STANDING_BY)


def test_once_ticks_what_is_due_and_makes_one_pass_of_maintenance(logs: CommandLine, ask: Ask) -> None:
    logs("ticker", "--once")
    ask("update pgq.tick set tick_time = now() - interval '1 second'")
    ask("select pgq.insert_event('orders', 'placed', '{}')")
    ask("select pgq.set_queue_config('orders', 'rotation_period', '1 millisecond')")

    done = json.loads(logs("ticker", "--once", "--json").stdout)

    assert [tick["log"] for tick in done["ticks"]] == ["orders"]
    assert "pgq.maint_rotate_tables_step1 orders" in done["operations"]
    assert done["failed"] == {}
    assert done["retried"] == 0


def test_once_says_what_it_did_and_what_it_could_not_do(logs: CommandLine, ask: Ask) -> None:
    ask("update pgq.queue set queue_extra_maint = array['public.missing'], queue_rotation_period = '0'")

    done = logs("ticker", "--once")

    assert "Did pgq.maint_rotate_tables_step1 orders." in done.stdout
    assert "public.missing orders: There is no function public.missing" in done.stderr
    assert done.returncode == 1


def test_once_works_beside_a_ticker_that_leads(logs: CommandLine, ask: Ask) -> None:
    logs.start("ticker").wait_for(LEADING)

    done = logs("ticker", "--once")

    assert done.returncode == 0
    assert done.stderr == ""


def test_without_the_event_log_once_says_what_to_do(rowbus: CommandLine) -> None:
    done = rowbus("ticker", "--once")

    assert done.returncode == 2
    assert "rowbus log install" in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--json",), ("--once", "--classic", "--tick-period", "20"), ("--tick-period", "9")]
)
def test_what_makes_no_sense_is_refused(rowbus: CommandLine, arguments: tuple[str, ...]) -> None:
    assert rowbus("ticker", *arguments).returncode == 2


def test_a_database_that_is_not_there_is_an_error(rowbus: CommandLine) -> None:
    for arguments in ((), ("--once",)):
        failed = rowbus("ticker", *arguments, "--database", "host=127.0.0.1 port=1")
        assert failed.returncode == 1
        assert "connection" in failed.stderr
