"""Mutants of the product, each with the fault that shows it: a harness that lets one pass proves nothing.

A mutant is a copy of `src` with a text replaced; the harness runs on it, with the copy before everything else on
Python's path. Invariant: the product itself is never changed, and a text that is not there any more is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.places import ROOT

FOUND = "WRONG: "
SRC = ROOT / "src"
PATIENCE = 400.0
TRANSPORT = "rowbus/transport"
SESSION = "rowbus/database/postgresql/receive_session.py"
SCOPE = "rowbus/running/scope.py"
LANE_RULE = f"{TRANSPORT}/lanes/rule.py"
HOLD = f"{TRANSPORT}/long_work/sql/postgresql/hold.sql"


@dataclass(frozen=True, slots=True)
class Edit:
    """One text of one file, below `src`, and what takes its place."""

    file: str
    old: str
    new: str

    def apply(self, source: Path) -> None:
        """Replace it; raises ValueError when it is not there exactly once."""
        path = source / self.file
        text = path.read_text("utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times: {self.old!r}")
        path.write_text(text.replace(self.old, self.new), "utf-8")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault put into the product, which fault of chaos shows it, and which wrong it is to show."""

    name: str
    fault: str
    shows: str
    edits: tuple[Edit, ...]
    rounds: int = 3


def _copying(name: str, columns: str) -> tuple[Edit, Edit]:
    """Have a statement of the mover's read what it is to delete."""
    file = f"{TRANSPORT}/delayed/sql/postgresql/{name}.sql"
    taken = ", ".join(f"taken.{column}" for column in columns.split(", "))
    read = f'    select {taken}\n    from :"schema".:"delayed" as taken\n'
    return (
        Edit(file, '    delete from :"schema".:"delayed" as taken\n', read),
        Edit(file, f"    returning {taken}\n", ""),
    )


MUTANTS = (
    Mutant(
        "the receive commits before the handler",
        "kill-worker",
        "lost",
        (
            Edit(
                SESSION,
                "answers = await self._exchange((_BEGIN, receive))\n",
                "answers = (await self._exchange((_BEGIN, receive, _COMMIT, _BEGIN)))[:2]\n",
            ),
            Edit(
                SESSION,
                "statements = (*before, _COMMIT, *after)",
                "statements = (*before, _COMMIT, *after, *((_COMMIT, _BEGIN) if after else ()))",
            ),
            Edit(SESSION, "return answers[-1]\n", "return answers[-3 if after else -1]\n"),
        ),
        rounds=12,
    ),
    Mutant(
        "what a handler sends leaves before its transaction",
        "vacuum-held-back",
        "doubled",
        (
            Edit(
                "rowbus/endpoint/context.py",
                "        if immediate:\n            await self._on_loop(self._delivery.send_now(send))\n",
                "        if True:\n            await self._on_loop(self._delivery.send_now(send))\n",
            ),
        ),
    ),
    Mutant(
        "what a failed handler wrote is not undone",
        "vacuum-held-back",
        "doubled",
        (Edit(SESSION, "            await self._exchange((UNDO,))\n", "            pass\n"),),
    ),
    Mutant(
        "a verdict does not leave with its transaction",
        "vacuum-held-back",
        "lost",
        (
            Edit(
                f"{TRANSPORT}/receiving/transactions.py",
                "leaving = (*outgoing.sends, *outgoing.verdicts)",
                "leaving = (*outgoing.sends,)",
            ),
        ),
    ),
    Mutant(
        "an event is published to its first subscriber only",
        "vacuum-held-back",
        "lost",
        (
            Edit(
                f"{TRANSPORT}/pubsub/publication.py",
                "send_together(self.event, addresses,",
                "send_together(self.event, addresses[:1],",
            ),
        ),
    ),
    Mutant(
        "a saga forgets what it did",
        "vacuum-held-back",
        "healthy messages in the error queue",
        (
            Edit(
                "rowbus/sagas/invocation.py",
                "            await inner.leave(state, definition.form.version)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "the mover copies instead of moving",
        "kill-mover",
        "doubled",
        (*_copying("move", "id, headers, body"), *_copying("move_expected", "id, headers, body, due")),
        rounds=1,
    ),
    Mutant(
        "the mover looks ahead",
        "vacuum-held-back",
        "early",
        tuple(
            Edit(
                f"{TRANSPORT}/delayed/sql/postgresql/{name}.sql",
                "waiting.due <= now()",
                "waiting.due <= now() + interval '200 milliseconds'",
            )
            for name in ("take_due", "move_expected")
        ),
    ),
    Mutant(
        "due times are counted by the sender's clock",
        "clock-off",
        "early",
        (
            Edit(
                f"{TRANSPORT}/delayed/postgresql.py",
                "    return due if isinstance(due, datetime) else None\n",
                "    return due if isinstance(due, datetime) else datetime.now().astimezone() + due\n",
            ),
            Edit(
                f"{TRANSPORT}/delayed/postgresql.py",
                "if TYPE_CHECKING:\n    from collections.abc",
                "from datetime import datetime\nif TYPE_CHECKING:\n    from collections.abc",
            ),
        ),
        rounds=1,
    ),
    Mutant(
        "the consumer's position commits after the work",
        "kill-consumer",
        "doubled",
        (
            Edit(
                "rowbus/log/consumers/chunk_worker.py",
                "        await session.run_together(statements)  # raises BatchError: before the commit\n",
                "        await session.commit()\n"
                "        import asyncio; await asyncio.sleep(0.1)\n"
                "        await session.begin(self._table.hold_batch(self._work.batch.id))\n"
                "        await session.run_together(statements)  # raises BatchError: before the commit\n",
            ),
        ),
        rounds=3,
    ),
    Mutant(
        "a silent ticker is never replaced",
        "sigstop-ticker",
        "stood still",
        (
            Edit(
                "rowbus/log/ticker/ticker.py",
                "ticks.configure(self._settings, self._settings.silence_timeout)",
                "ticks.configure(self._settings)",
            ),
        ),
        rounds=1,
    ),
    Mutant(
        "programs wait long before they connect again",
        "stop-server",
        "stood still",
        (Edit("rowbus/running/backoff.py", "WAIT_WHEN_ARMED = 1.0", "WAIT_WHEN_ARMED = 12.0"),),
        rounds=1,
    ),
    Mutant(
        "only an Exception counts as a handler's failure",
        "panic",
        "poisons that are not in the error queue",
        (Edit(SCOPE, "        except BaseException as raised:\n", "        except Exception as raised:\n"),),
    ),
    Mutant(
        "a handler may end its process",
        "exit",
        "programs ended by themselves",
        (
            Edit(
                SCOPE,
                "            if self._is_closed:\n                raise\n",
                "            if self._is_closed or isinstance(raised, (SystemExit, KeyboardInterrupt)):\n"
                "                raise\n",
            ),
        ),
        rounds=1,
    ),
    Mutant(
        "a task that is left goes on in the next transaction",
        "leftover-task",
        "invented",
        (
            Edit(
                SCOPE,
                "    if scope is None or (in_loop and own is None)",
                "    if True or scope is None or (in_loop and own is None)",
            ),
            Edit(
                SCOPE,
                "        left = [task for task in self.tasks or () if not task.done()]\n",
                "        left: list[asyncio.Task[Any]] = []\n",
            ),
        ),
    ),
    Mutant(
        "a connection is used on that is in the midst of something",
        "busy-connection",
        "poisons that are not in the error queue",
        (Edit("rowbus/work/attempt.py", "    if not session.is_occupied:\n", "    if True:\n"),),
    ),
    Mutant(
        "what a handler sets is there until its connection ends",
        "set-role",
        "healthy messages in the error queue",
        (
            Edit(SESSION, "(_CHECK_CONSTRAINTS, *connection.own_settings)", "(_CHECK_CONSTRAINTS,)"),
            Edit(SESSION, "settings, pgconn = self.connection.own_settings,", "settings, pgconn = (),"),
        ),
    ),
    Mutant(
        "what a handler sets is there until its batch ends",
        "set-role",
        "handlers found what another had left",
        (
            Edit(
                "rowbus/database/postgresql/handler_connection.py",
                "return (*self.clearing[:1], *_NEXT_ATTEMPT) if self.own_settings else (_RELEASE, SAVEPOINT)\n",
                "return (_RELEASE, SAVEPOINT)\n",
            ),
        ),
    ),
    Mutant(
        "decimal's context is that of all handlers",
        "context-variable",
        "handlers found what another had left",
        (Edit(SCOPE, "        if value is not own:\n", "        if True:\n"),),
    ),
    Mutant(
        "a commit that waits holds up all slots of its receiver",
        "locked-destination",
        "waited",
        (
            Edit(
                f"{TRANSPORT}/receiving/receiver.py",
                "            await self.permits.only_travels.wait()\n",
                "            await self.permits.over.wait()\n",
            ),
        ),
        rounds=1,
    ),
    Mutant(
        "looks that hung beside each other are dear",
        "late-commit",
        "waited",
        (
            Edit(
                f"{TRANSPORT}/receiving/decisions.py",
                "        if started < self._last_end:\n            return\n",
                "",
            ),
            Edit(
                f"{TRANSPORT}/receiving/decisions.py",
                "LONGEST_INTERVAL = 10.0",
                "LONGEST_INTERVAL = 1000.0",
            ),
        ),
        rounds=8,
    ),
    Mutant(
        "sessions do not wait for the standby",
        "standby-away",
        "unconfirmed",
        (
            Edit(
                "rowbus/database/sql/postgresql/prepare_session.sql",
                "    pg_catalog.set_config('timezone', 'UTC', false) as timezone,\n",
                "    pg_catalog.set_config('timezone', 'UTC', false) as timezone,\n"
                "    pg_catalog.set_config('synchronous_commit', 'local', false) as durability,\n",
            ),
        ),
        rounds=1,
    ),
    Mutant(
        "a late one is not told, and what it commits for its message is not refused",
        "long-freeze",
        "handlers found what another had left",
        (
            Edit(HOLD, " and held.epoch = :'epoch'::int", ""),
            Edit(
                "rowbus/endpoint/long_work.py", "hand.work.id not in still and not hand.is_finished", "False"
            ),
        ),
    ),
    Mutant(
        "a process that is frozen in a transaction keeps its message",
        "long-freeze",
        "stood still",
        (Edit(HOLD, " * 1000)", " * 0)"),),
        rounds=4,
    ),
    Mutant(
        "every process has every lane",
        "lane-join",
        "disordered",
        (
            Edit(LANE_RULE, "range(place, lanes, members)", "range(lanes)"),
            Edit(
                f"{TRANSPORT}/lanes/sql/postgresql/take_lane.sql",
                "pg_try_advisory_lock(pg_catalog.hash",
                "pg_try_advisory_lock_shared(pg_catalog.hash",
            ),
        ),
    ),
    Mutant(
        "a process that is frozen keeps its lanes",
        "lane-freeze",
        "stood still",
        (Edit(LANE_RULE, "if lane in own and holder.process is not None and", "if lane < 0 and"),),
    ),
)


def run(mutant: Mutant) -> tuple[bool, str]:
    """Run the harness on a mutant; say whether it showed the wrong that it is to show, and what it said."""
    with tempfile.TemporaryDirectory(prefix="rowbus-mutant-") as folder:
        source = Path(folder, "src")
        shutil.copytree(SRC, source, ignore=shutil.ignore_patterns("__pycache__"))
        for edit in mutant.edits:
            edit.apply(source)
        command = [sys.executable, "-m", "tests.chaos", mutant.fault, "--rounds", str(mutant.rounds)]
        said, complaint = _output(command, source)
    wrongs = [line.partition(FOUND)[2] for line in said.splitlines() if FOUND in line]
    shown = [wrong for wrong in wrongs if mutant.shows in wrong]
    return (True, shown[0]) if shown else (False, "; ".join(wrongs) or complaint[-500:] or "nothing wrong")


def _output(command: list[str], source: Path) -> tuple[str, str]:
    """Run the harness on a copy of the package; give what it wrote. One that never ends is ended, with all it runs."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        try:
            return process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.terminate()
            return process.communicate()[0], f"The run did not end within {PATIENCE:.0f} s."
