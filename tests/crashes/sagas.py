"""`python -m tests.crashes.sagas`: four workers are killed at random while sagas go on, for three minutes.

    python -m tests.crashes.sagas [--sagas 10000] [--minutes 3] [--layout rowbus|nservicebus] [--batch-size 1]

Each order is placed, paid and packed, and every second one waits for its timeout. All messages are there twice, with
the same id, and come in random order, evenly over the time. A worker that is killed (SIGKILL) is replaced. Then all
sagas must come to their end: each transition exactly once, none lost, none early, no message in the error queue. Exit
code 1: something is wrong. docs/reliability.md has the results.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from tests.chaos.server import Server, open_folder
from tests.fixtures.processes import Program, Programs, await_that

PROGRAM = Path(__file__).with_name("crash_programs") / "saga_worker.py"
WORKERS = 4
STEPS = ("placed", "paid", "packed")
BETWEEN_KILLS = (0.3, 2.5)  # seconds
PATIENCE = 900.0
TABLES = (
    "create table transitions (number int, step text, asked timestamptz, at timestamptz default clock_timestamp())",
    "create table completed (number int, done text[])",
    "create table unsent (position bigserial, headers text, body bytea)",
)
FILL = """
with message as materialized (
    select number, step, gen_random_uuid() as id
    from generate_series(1, %s) as number, unnest(%s::text[]) as step
)
insert into unsent (headers, body)
select
    json_build_object('NServiceBus.MessageId', id, 'NServiceBus.EnclosedMessageTypes', 'Crash.Step')::text,
    convert_to(json_build_object('number', number, 'name', step)::text, 'UTF8')
from message, generate_series(1, 2)
order by random()
"""
SEND = """
insert into "Work" (id, headers, body)
select gen_random_uuid(), headers, body from unsent where position > %s and position <= %s
"""
DONE = "select number, array_agg(step order by step) from transitions group by number"
EARLY = "select number from transitions where step = 'overdue' and at < asked + interval '500 milliseconds'"
WHY = "select headers::jsonb ->> 'NServiceBus.ExceptionInfo.Message' from error"
TABLE_OF = {"rowbus": "Work.Order", "nservicebus": "Work_Order"}


@dataclass(frozen=True)
class Plan:
    """A number of sagas, their layout, and how many messages a worker receives at a time."""

    sagas: int
    layout: str = "rowbus"
    batch_size: int = 1

    @property
    def messages(self) -> int:
        return self.sagas * len(STEPS) * 2

    def expected(self, number: int) -> list[str]:
        """Give the transitions of a saga, in the order of their names."""
        return sorted(STEPS if number % 2 else (*STEPS, "overdue"))

    @property
    def timeouts_left(self) -> int:
        """Number of timeouts left to come: .NET's layout has no place to note them, so none is cancelled."""
        return (self.sagas + 1) // 2 if self.layout == "nservicebus" else 0


class Scene:
    """A database, its messages, and the workers that are killed over them."""

    def __init__(self, folder: Path, dsn: str, plan: Plan) -> None:
        self.plan = plan
        self.kills = 0
        self.chance = random.Random(plan.batch_size)
        self.connection = psycopg.connect(dsn, autocommit=True)
        for statement in QueueTable(QueueAddress("public", "Work")).create():
            self.connection.execute(statement.query.text)
        for table in TABLES:
            self.connection.execute(table.encode())
        self.connection.execute(FILL, (plan.sagas, list(STEPS)))
        self._sent = 0
        self._programs = Programs(folder, dsn)
        self._workers: list[Program] = []

    def start(self) -> None:
        """Start the workers."""
        self._workers = [self._worker() for _ in range(WORKERS)]

    def send(self, share: float = 1.0) -> None:
        """Send messages until this share of them is sent."""
        until = round(self.plan.messages * share)
        self.connection.execute(SEND, (self._sent, until))
        self._sent = until

    def kill(self) -> None:
        """Kill one worker, and start another."""
        self._workers.pop(self.chance.randrange(WORKERS)).kill()
        self._workers.append(self._worker())
        self.kills += 1

    def kill_for(self, seconds: float) -> None:
        """Send everything evenly over this time, and kill a worker every now and then."""
        begin = time.monotonic()
        next_kill = begin + self.chance.uniform(*BETWEEN_KILLS)
        while (passed := time.monotonic() - begin) < seconds:
            self.send(passed / seconds)
            if time.monotonic() >= next_kill:
                self.kill()
                next_kill = time.monotonic() + self.chance.uniform(*BETWEEN_KILLS)
            time.sleep(0.1)  # long sleep: the pace of the sender
        self.send()

    def finish(self) -> None:
        """Wait until every saga has come to its end and no message is left, and end the workers."""
        await_that(
            lambda: self.count("completed") >= self.plan.sagas, "all sagas to complete", patience=PATIENCE
        )
        await_that(
            lambda: self.count('"Work"') == 0, "the doubled messages to be consumed", patience=PATIENCE
        )
        for worker in self._workers:
            worker.kill()

    def wrong(self) -> list[str]:
        """Say what is not as it should be, in a sentence each."""
        return [f"{name}: {found[:5]}" for name, look in self._checks().items() if (found := list(look()))]

    def _checks(self) -> dict[str, Callable[[], Iterator[object]]]:
        return {
            "not exactly once": self._not_once,
            "early": lambda: self._values(EARLY),
            "not completed exactly once": self._not_completed,
            "in the error queue": lambda: self._values(WHY),
            "left behind": self._left,
        }

    def _not_once(self) -> Iterator[object]:
        done = dict(self.rows(DONE))
        for number in range(1, self.plan.sagas + 1):
            if done.get(number) != self.plan.expected(number):
                yield number, done.get(number)

    def _not_completed(self) -> Iterator[object]:
        yield from set(range(1, self.plan.sagas + 1)) ^ set(self._values("select number from completed"))
        yield from self._values("select number from completed group by number having count(*) > 1")

    def _left(self) -> Iterator[object]:
        expected = {"Work": 0, "Work.Delayed": self.plan.timeouts_left, TABLE_OF[self.plan.layout]: 0}
        for table, number in expected.items():
            if (count := self.count(f'"{table}"')) != number:
                yield f"{count} in {table}"

    def await_transitions(self, count: int) -> None:
        await_that(lambda: self.count("transitions") >= count, f"{count} transitions", patience=300)

    def count(self, table: str) -> int:
        ((count,),) = self.rows(f"select count(*) from {table}")
        assert isinstance(count, int)
        return count

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode()).fetchall()

    def _values(self, query: str) -> Iterator[object]:
        return (value for (value,) in self.rows(query))

    def _worker(self) -> Program:
        return self._programs.start(PROGRAM, str(self.plan.batch_size), self.plan.layout)

    def end(self) -> None:
        """Kill what still runs."""
        self._programs.end()
        self.connection.close()


def run(folder: Path, plan: Plan, seconds: float) -> int:
    """Run it on a server of its own, say what was seen, and give the exit code."""
    server = Server(folder / "server")
    server.initialise()
    server.start()
    scene = Scene(folder, server.dsn("postgres"), plan)
    begin = time.monotonic()
    try:
        scene.start()
        scene.kill_for(seconds)
        scene.finish()
        wrong = scene.wrong()
        took, done = time.monotonic() - begin, scene.count("transitions")
    finally:
        scene.end()
        server.stop()
    cells = (plan.layout, plan.batch_size, f"{plan.sagas:,}", f"{plan.messages:,}", scene.kills, f"{done:,}")
    say("| layout | received at a time | sagas | messages | kills | transitions | time | wrong | on |")
    say(
        "| " + " | ".join(map(str, cells)) + f" | {took:.0f} s | {len(wrong)} | {time.strftime('%Y-%m-%d')} |"
    )
    for sentence in wrong:
        say(f"WRONG: {sentence}")
    return int(bool(wrong))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Do what the command line says, and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes.sagas", description=__doc__)
    parser.add_argument("--sagas", type=int, default=10_000)
    parser.add_argument(
        "--minutes", type=float, default=3.0, help="how long messages come and workers are killed"
    )
    parser.add_argument("--layout", choices=sorted(TABLE_OF), default="rowbus")
    parser.add_argument("--batch-size", type=int, default=1, help="messages that a worker receives at a time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowbus-sagas-") as folder:
        plan = Plan(given.sagas, given.layout, given.batch_size)
        return run(open_folder(Path(folder)), plan, given.minutes * 60)


if __name__ == "__main__":
    sys.exit(main())
