"""`python -m tests.chaos soak`: the whole system at a steady rate for long, without faults.

It samples what must stay flat (memory, sessions, the size of the tables that messages pass through), and at the end has
the checker judge the history, and gives the latencies.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import LiteralString

from tests.chaos.checker import Verdict
from tests.chaos.faults.fault import Fault
from tests.chaos.history import History
from tests.chaos.system import System

MESSAGES_A_SEND = 18 / 9
"""Messages for each send of the producers' mix: follow-ups, replies, copies and delayed retries count."""
SAMPLES = 20
GROWTH = 1.15
"""Factor by which the last third of a soak may have more than the second."""
SPARE_MEGABYTES = 8.0
"""Growth that does not count: a page here and there."""

SIZES: LiteralString = """
    select coalesce(sum(pg_total_relation_size(oid)), 0)::float8 / 1048576
    from pg_class
    where relkind = 'r' and relname <> 'effect' and relnamespace in ('public'::regnamespace, 'pgq'::regnamespace)
        and relname !~ '^event_'
"""
SESSIONS: LiteralString = "select count(*) from pg_stat_activity where application_name like 'rowbus%'"
PAGE = 4096
HEAD = (
    "| minutes | messages a second | memory | sessions | tables |",
    "| ------- | ----------------- | ------ | -------- | ------ |",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at everything; memory and tables in megabytes, `done` counts effects from the beginning."""

    at: float
    done: int
    memory: float
    sessions: int
    tables: float


def growths(samples: Sequence[Sample]) -> list[str]:
    """Name what was not flat: the median of the last third against that of the second."""
    third = len(samples) // 3
    if not third:
        return ["too short to tell"]
    middle, last = samples[third : 2 * third], samples[-third:]
    found = []
    for name in ("memory", "sessions", "tables"):
        before, after = (median(getattr(sample, name) for sample in part) for part in (middle, last))
        if after > before * GROWTH + SPARE_MEGABYTES:
            found.append(f"{name} grew from {before:.0f} to {after:.0f}")
    return found


def latencies(history: History) -> Iterator[tuple[str, float, float]]:
    """Give for each stage that is measured its median and its 99th percentile, in seconds."""
    ready = {send.number: send.ready for send in history.sends}
    for stage in ("command", "event", "delayed"):
        waits = [
            effect.at - (effect.due or ready[effect.number])
            for effect in history.effects
            if effect.stage == stage and effect.number in ready
        ]
        if len(waits) > 1:
            yield stage, median(waits), quantiles(waits, n=100)[98]


class Soak(Fault):
    """No fault at all: samples instead."""

    name = "soak"
    own_server = True
    rounds = SAMPLES
    rest = 60.0
    seconds = 60.0

    def started(self, system: System) -> None:
        self.samples: list[Sample] = []
        print(*HEAD, sep="\n", flush=True)  # noqa: T201 - a soak that is cut short has shown what it saw
        self.begin = time.monotonic()
        self.system = system

    def strike(self, system: System) -> None:
        """Wait for the next sample, and take it."""
        due = self.begin + self.seconds / SAMPLES * (len(self.samples) + 1)
        time.sleep(max(0.0, due - time.monotonic()))
        before = self.samples[-1] if self.samples else Sample(0.0, 0, 0.0, 0, 0.0)
        self.samples.append(_sample(system, time.monotonic() - self.begin))
        print(row(before, self.samples[-1]), flush=True)  # noqa: T201 - as above


def _sample(system: System, at: float) -> Sample:
    with system.connect() as connection:
        done, tables, sessions = (
            connection.execute(query).fetchone() for query in ("select count(*) from effect", SIZES, SESSIONS)
        )
    assert done is not None
    assert tables is not None
    assert sessions is not None
    pids = [pid for program in system.programs.values() for pid in program.pids]
    return Sample(at, done[0], sum(map(_memory, pids)), sessions[0], tables[0])


def _memory(pid: int) -> float:
    """Give the resident memory of a process in megabytes."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20
    return 0.0


def row(before: Sample, sample: Sample) -> str:
    """Give a sample's line, with the rate since the one before."""
    rate = (sample.done - before.done) / (sample.at - before.at)
    cells = (f"{sample.at / 60:.1f}", f"{rate:.0f}", f"{sample.memory:.0f} MB", str(sample.sessions))
    return "| " + " | ".join((*cells, f"{sample.tables:.1f} MB")) + " |"


def report(soak: Soak, verdict: Verdict, history: History) -> Iterator[str]:
    """Give the latencies, and what is wrong."""
    yield ""
    yield "| from send (or due) to effect | half | 99 of 100 |"
    yield "| ---------------------------- | ---- | --------- |"
    for stage, half, most in latencies(history):
        yield f"| {stage} | {half * 1000:.0f} ms | {most * 1000:.0f} ms |"
    for wrong in (*verdict.wrong, *growths(soak.samples)):
        yield f"WRONG: {wrong}"
