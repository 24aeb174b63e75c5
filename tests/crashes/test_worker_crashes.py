"""Workers and servers are killed while messages go through: nothing is lost, and nothing happens twice that must not.

The workers are processes of their own (`crash_programs/worker.py`), killed with SIGKILL at random moments that follow
from their progress, so that each kill hits one at work. What became of every message is read off the database in one
snapshot (`fixtures/history.py`), after each kill and at the end. docs/how-to/what-happens-in-a-crash.md says to users
what is tested here.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from rowbus.log.causes import read_cause
from rowbus.settings import TransactionMode
from tests.fixtures.database import CrashableServer
from tests.fixtures.history import History, Snapshot, recorded
from tests.fixtures.pairs import effort, today
from tests.fixtures.processes import Program, Programs, await_that

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).with_name("crash_programs")
MESSAGES = effort(1_500, 5_000)
WORKER_KILLS = effort(12, 50)
SERVER_KILLS = effort(3, 10)
DRAINS = effort(2, 5)
DRAINED = 500  # messages for each drain, of which at most half are done when it comes
CONCURRENCY = 2  # of each endpoint of a worker, as in worker.py
SHORTLY = 0.004  # seconds, as long as a handler takes at most
LINES_PER_OUTAGE = 20
"""Of a worker: both its endpoints say of peeking, of receiving and of moving delayed messages that it fails and that it
works again, and may say so once more, because the server's processes do not all die at the same moment; and both movers
say whether they lead or stand by."""

NONE = TransactionMode.NONE
RECEIVE_ONLY = TransactionMode.RECEIVE_ONLY
SENDS_ATOMIC = TransactionMode.SENDS_ATOMIC_WITH_RECEIVE

FAILING = range(250, MESSAGES, 500)  # these fail whenever they are handled
ATTEMPTS = 6  # at each of these: the first and two immediate retries, and as many after a delay
POISON = range(400, MESSAGES, 700)  # of these not even the headers can be read
FATED = sorted({*FAILING, *POISON})

HANDLERS = {"public.handled": "__main__.handle", "public.followed": "__main__.follow"}  # of worker.py
IDS: LiteralString = """
    select
        (convert_from(body, 'UTF8')::json ->> 'number')::integer,
        headers::json ->> 'NServiceBus.MessageId'
    from "Work" where headers like '{%}'
"""
CAPTURED: LiteralString = """
    select ev_extra1, (ev_data::json ->> 'number')::integer, ev_extra4
    from pgq.event_template where ev_extra1 in ('public.handled', 'public.followed')
"""

in_transaction_modes = pytest.mark.parametrize("mode", [RECEIVE_ONLY, SENDS_ATOMIC], ids=lambda m: m.value)
in_all_modes = pytest.mark.parametrize("mode", [NONE, RECEIVE_ONLY, SENDS_ATOMIC], ids=lambda m: m.value)
in_batches = pytest.mark.parametrize("batch_size", [1, 20])

Check = Callable[[Snapshot], None]


class Crew:
    """Workers that do the same, and what they leave behind."""

    def __init__(self, folder: Path, database: str, history: History, settings: dict[str, object]) -> None:
        self.history = history
        self.workers: list[Program] = []
        self._folder = folder
        self._programs = Programs(folder, database)
        self._settings = settings

    def hire(self, count: int = 1) -> None:
        """Start so many more workers, and do not wait for them."""
        for _ in range(count):
            settings = {**self._settings, "seed": len(self.workers)}
            self.workers.append(self._programs.start(PROGRAMS / "worker.py", json.dumps(settings)))

    def start_sender(self) -> Program:
        """Start a client that sends all messages, each at most once."""
        return self._programs.start(PROGRAMS / "producer.py", "messages", str(MESSAGES), "1")

    @property
    def alive(self) -> list[Program]:
        return [worker for worker in self.workers if worker.is_running]

    def await_progress(self, count: int) -> None:
        """Wait until so many messages are done."""
        await_that(lambda: self.history.progress() >= count, f"{count} messages to be done")

    def at_work(self) -> list[Program]:
        """Give those alive that have committed something, and so have something else in hand by now."""
        pids = self.history.pids()
        return [worker for worker in self.alive if worker.pid in pids]

    def let_go(self) -> None:
        """Let the handlers end that block until then."""
        (self._folder / "go").touch()

    def finish(self) -> None:
        """Wait until there is nothing left to do, and have the workers end."""
        await_that(lambda: not self.history.left_to_do(), "everything to be done")
        for worker in self.alive:
            worker.await_line("serving")
        self.drain()

    def drain(self) -> None:
        """Have all finish what is in hand and end."""
        alive = self.alive
        for worker in alive:
            worker.drain()
        assert {worker.wait() for worker in alive} == {0}

    def end(self) -> None:
        self._programs.end()


@contextmanager
def crew(folder: Path, database: str, mode: TransactionMode, **settings: object) -> Iterator[Crew]:
    """Give a crew without workers, on a database with its queues and tables."""
    with recorded(database) as history:
        crew = Crew(folder, database, history, {"mode": mode.value, **settings})
        try:
            yield crew
        finally:
            crew.end()


# ---------------------------------------------------------------------------------------------- workers that are killed


def send_all(history: History) -> None:
    """Send every message, also those that are fated to end in the error queue."""
    pending: list[dict[str, object]] = []
    for number in range(MESSAGES):
        if number in POISON:
            history.send(*pending)
            pending.clear()
            history.send_poison(number)
        else:
            pending.append({"number": number, "fails": number in FAILING})
    history.send(*pending)


def kill_workers(crew: Crew, chance: random.Random, check: Check) -> None:
    """At random moments of the progress kill a worker at work, have another take its place, and look."""
    history = crew.history
    for moment in sorted(chance.sample(range(MESSAGES // 10, MESSAGES * 2 // 5), WORKER_KILLS)):
        crew.await_progress(moment)
        await_that(lambda: bool(crew.at_work()), "a worker to be at work")
        time.sleep(chance.uniform(0, SHORTLY))
        assert history.progress() < MESSAGES - len(FATED), "the kill came when everything was done"
        chance.choice(crew.at_work()).kill()
        crew.hire()
        seen = history.snapshot()
        assert len(seen.sent) == MESSAGES
        check(seen)


def survive_kills(crew: Crew, seed: int, check: Check) -> Snapshot:
    """Have two workers at a time do all the work under kills; give the final state, checked like all before."""
    send_all(crew.history)
    crew.hire(2)
    kill_workers(crew, random.Random(today() + seed), check)
    crew.finish()
    end = crew.history.snapshot()
    check(end)
    return end


def interrupted(history: History) -> int:
    """Give how many rows were undone because their worker was killed, and not because their handler failed."""
    return history.rolled_back() - ATTEMPTS * len(FAILING)


def in_one_place(seen: Snapshot) -> None:
    """Check that each message, and the follow-up of each that is handled, is in exactly one place."""
    assert (seen.lost, seen.doubled) == ([], [])
    assert (seen.without_follow_up, seen.with_too_many_follow_ups) == ([], [])


@pytest.mark.one_version
@in_batches
def test_when_workers_are_killed_sends_atomic_loses_nothing_and_doubles_nothing(
    database: str, tmp_path: Path, batch_size: int
) -> None:
    with crew(tmp_path, database, SENDS_ATOMIC, batch_size=batch_size) as workers:
        end = survive_kills(workers, batch_size, check=in_one_place)

        assert end.failed == FATED
        assert len(end.handled) == MESSAGES - len(FATED)
        assert interrupted(workers.history) >= WORKER_KILLS // 2, "too few kills hit a handler at work"


def handled_once(seen: Snapshot) -> None:
    """Check that no message is lost, none is handled twice, and none is handled without its follow-up being there.

    The error queue's copy is sent like a follow-up, just before its message is consumed; so for a moment there may be
    both, and after a kill in that moment there may be two copies.
    """
    assert (seen.lost, seen.handled_twice, seen.without_follow_up) == ([], [], [])
    assert set(seen.doubled) <= set(FATED)


@pytest.mark.one_version
@in_batches
def test_when_workers_are_killed_receive_only_loses_nothing_and_doubles_at_most_what_it_sent(
    database: str, tmp_path: Path, batch_size: int
) -> None:
    with crew(tmp_path, database, RECEIVE_ONLY, batch_size=batch_size) as workers:
        end = survive_kills(workers, batch_size, check=handled_once)

        assert end.failed == FATED
        assert len(end.handled) == MESSAGES - len(FATED)
        assert len(end.with_too_many_follow_ups) <= WORKER_KILLS * CONCURRENCY * batch_size
        assert interrupted(workers.history) >= WORKER_KILLS // 2, "too few kills hit a handler at work"


@pytest.mark.one_version
@in_batches
def test_when_workers_are_killed_each_change_names_its_own_message_and_handler(
    log_database: str, tmp_path: Path, batch_size: int
) -> None:
    with (
        crew(tmp_path, log_database, SENDS_ATOMIC, batch_size=batch_size) as workers,
        psycopg.connect(log_database, autocommit=True) as connection,
    ):
        connection.execute("select pgq.create_queue('log')")
        connection.execute(
            "select pgq.capture_table(t, 'log') from unnest('{handled,followed}'::regclass[]) as t"
        )
        send_all(workers.history)
        ids: dict[int, str] = dict(connection.execute(IDS).fetchall())
        workers.hire(2)
        kill_workers(workers, random.Random(today() + batch_size), in_one_place)
        workers.finish()
        changes = connection.execute(CAPTURED).fetchall()

    told = {
        (table, number, read_cause(cause)[:2], read_cause(cause).handler) for table, number, cause in changes
    }
    done = MESSAGES - len(FATED)
    assert len(changes) == len(told) == 2 * done
    wrong = [
        (table, number)
        for table, number, (message_id, conversation_id), handler in told
        if (conversation_id, handler) != (ids[number], HANDLERS[table])
        or (message_id == ids[number]) != (table == "public.handled")
    ]
    assert wrong == []


def never_repeated(seen: Snapshot) -> None:
    """Check that no message is received twice; what a failing handler wrote stays, though its message failed."""
    assert (seen.handled_twice, seen.with_too_many_follow_ups) == ([], [])
    assert set(seen.doubled) <= set(FAILING)


@pytest.mark.one_version
def test_when_workers_are_killed_mode_none_doubles_nothing_and_loses_at_most_what_was_in_hand(
    database: str, tmp_path: Path
) -> None:
    with crew(tmp_path, database, NONE) as workers:
        end = survive_kills(workers, 3, check=never_repeated)

        in_hand = WORKER_KILLS * CONCURRENCY
        incomplete = {*end.lost, *end.without_follow_up}.difference(FATED)
        assert len(end.lost) <= in_hand  # that there is such a loss is shown below, where no chance is in it
        assert len(incomplete) <= 2 * in_hand  # two queues, and a message is in hand once in each
        assert set(end.failed) <= set(FATED)


@pytest.mark.one_version
@in_transaction_modes
def test_a_message_whose_worker_is_killed_in_the_middle_of_a_thread_is_found_by_one_that_is_far_ahead(
    database: str, tmp_path: Path, mode: TransactionMode
) -> None:
    with crew(tmp_path, database, mode) as workers:
        history = workers.history
        workers.hire()
        history.send({"number": 0}, type="Crash.Block")
        workers.workers[0].await_line("blocking")
        workers.hire()
        history.send(*({"number": number} for number in range(1, 500)))
        workers.await_progress(499)
        workers.workers[0].kill()
        killed = history.snapshot()
        workers.workers[1].await_line("blocking")
        workers.let_go()
        workers.finish()

        assert (killed.waiting, len(killed.handled)) == ([0], 499)
        in_one_place(history.snapshot())
        assert len(history.snapshot().handled) == 500


@pytest.mark.one_version
def test_in_mode_none_what_a_killed_worker_has_in_hand_is_lost_and_what_its_handlers_wrote_stays(
    database: str, tmp_path: Path
) -> None:
    with crew(tmp_path, database, NONE) as workers:
        workers.history.send(*({"number": number} for number in range(5)), type="Crash.Block")
        workers.hire()
        workers.workers[0].await_line("blocking", times=CONCURRENCY)
        workers.workers[0].kill()
        end = workers.history.snapshot()

        assert (end.handled, end.without_follow_up, end.waiting) == ([0, 1], [0, 1], [2, 3, 4])


@pytest.mark.one_version
def test_a_message_whose_worker_is_killed_in_a_long_statement_comes_back_when_the_server_is_told_to_look(
    database: str, tmp_path: Path
) -> None:
    attentive = make_conninfo(database, options="-c client_connection_check_interval=50ms")
    with crew(tmp_path, attentive, SENDS_ATOMIC) as workers:
        workers.history.send({"number": 1, "in_sql": True}, type="Crash.Block")
        workers.hire()
        workers.workers[0].await_line("blocking")
        workers.workers[0].kill()
        workers.let_go()
        workers.hire()
        workers.finish()

        assert workers.history.snapshot().handled == [1]


# ----------------------------------------------------------------------------------------- workers that are told to end


@pytest.mark.one_version
@in_all_modes
def test_workers_that_are_told_to_end_under_load_lose_nothing_and_redo_nothing(
    database: str, tmp_path: Path, mode: TransactionMode
) -> None:
    chance = random.Random(today())
    with crew(tmp_path, database, mode, batch_size=5, alone=True) as workers:
        history = workers.history
        history.send(*({"number": number} for number in range(DRAINS * DRAINED)))
        for _ in range(DRAINS):
            moment = history.progress() + chance.randint(20, DRAINED // 2)
            workers.hire(2)
            workers.await_progress(moment)
            await_that(lambda: len(workers.at_work()) == 2, "both workers to be at work")
            workers.drain()
            in_one_place(history.snapshot())

        assert history.snapshot().waiting
        assert history.rolled_back() == 0


# -------------------------------------------------------------------------------------------- the server that is killed


def kill_server(
    crew: Crew, server: CrashableServer, sender: Program, chance: random.Random, check: Check
) -> None:
    """At random moments of the progress kill the server under sender and workers, start it again, and look."""
    history = crew.history
    for moment in sorted(chance.sample(range(MESSAGES // 10, MESSAGES * 3 // 4), SERVER_KILLS)):
        crew.await_progress(moment)
        time.sleep(chance.uniform(0, SHORTLY))
        server.kill()
        assert sender.is_running, "the kill came when everything was sent"
        history.reconnect()
        server.start()
        check(history.snapshot())


def all_slots_work(crew: Crew, batch_size: int) -> None:
    """Check that every slot of every worker still receives: have each hold a batch, all at the same time."""
    batches = len(crew.alive) * CONCURRENCY
    numbers = range(MESSAGES, MESSAGES + batches * batch_size)
    crew.history.send(*({"number": number} for number in numbers), type="Crash.Block")
    for worker in crew.alive:
        worker.await_line("blocking", times=CONCURRENCY)
    crew.let_go()


def complained_little(worker: Program) -> None:
    """Check that a worker took the outages for what they were, and said so in few words."""
    said = [line for line in worker.lines if line not in {"serving", "blocking"}]
    text = "\n".join(said)
    assert len(said) <= 2 + SERVER_KILLS * LINES_PER_OUTAGE, text
    assert {line.split()[0] for line in said} <= {"INFO", "WARNING"}, text
    assert "retry" not in text.lower()
    assert "error queue" not in text


@pytest.mark.parametrize(
    "mode, batch_size, check",
    [(SENDS_ATOMIC, 1, in_one_place), (SENDS_ATOMIC, 20, in_one_place), (RECEIVE_ONLY, 1, handled_once)],
    ids=["sends-atomic-1", "sends-atomic-20", "receive-only-1"],
)
def test_when_the_server_is_killed_confirmed_sends_are_handled_once_by_workers_that_live_on(
    crashable_server: CrashableServer, tmp_path: Path, mode: TransactionMode, batch_size: int, check: Check
) -> None:
    with crew(tmp_path, crashable_server.dsn, mode, batch_size=batch_size) as workers:
        workers.hire(2)
        sender = workers.start_sender()
        kill_server(workers, crashable_server, sender, random.Random(today() + batch_size), check)
        assert sender.wait() == 0
        await_that(lambda: not workers.history.left_to_do(), "everything to be done")
        assert len(workers.alive) == 2
        all_slots_work(workers, batch_size)
        workers.finish()
        end = workers.history.snapshot()

        check(end)
        assert (end.failed, end.handled) == ([], end.sent)
        confirmed = {int(number) for line in sender.lines for number in line.split()}
        assert len(confirmed) > MESSAGES * 9 // 10
        assert confirmed <= set(end.handled)
        for worker in workers.workers:
            complained_little(worker)
