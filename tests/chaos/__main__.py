"""`python -m tests.chaos [FAULT …]`: run faults, print the table; exit code 1 when a promise was broken.

`python -m tests.chaos mutants [PART OF A NAME …]` runs it on mutants of the product, and `python -m tests.chaos soak
[--minutes M] [--rate R]` has everything work for long without faults. `make chaos` is the first of the three.
docs/reliability.md describes them.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock

from tests.chaos import mutants, soak
from tests.chaos.checker import Verdict
from tests.chaos.faults import FAULTS
from tests.chaos.faults.fault import Unavailable
from tests.chaos.mutants import MUTANTS
from tests.chaos.run import Harness, Load, harness
from tests.chaos.table import COLUMNS, line, markdown, merge
from tests.fixtures.processes import children

Names = tuple[str, ...]
"""Of the faults of one run."""

JOBS = 2
KILLED = 128 + signal.SIGTERM


def say(*lines: str) -> None:
    """Write lines at once, also when several runs have something to say."""
    os.write(1, "".join(f"{text}\n" for text in lines).encode())


class Report:
    """Results of the runs so far; each line is in the page, if there is one, as soon as its fault is over."""

    def __init__(self, *, again: bool, page: Path | None) -> None:
        """`again`: a fault that was only slow runs once more, because other programs may have had the machine."""
        self._again = again
        self._page = page
        self._writing = Lock()
        self.verdicts: dict[str, Verdict] = {}
        self.rows: dict[str, tuple[str, ...]] = {}
        self.left_out: dict[str, str] = {}
        self.broken: dict[str, str] = {}

    def run(self, place: Harness, names: Names) -> None:
        """Run faults on one system, and say what it showed; what breaks the harness is as bad as a broken promise."""
        begin = time.monotonic()
        try:
            verdicts = self._run(place, names)
        except Unavailable as reason:
            self.left_out |= dict.fromkeys(names, str(reason))
        except Exception as error:  # noqa: BLE001 - the other faults are to run
            self.broken |= dict.fromkeys(names, f"{type(error).__name__}: {error}")
            say(f"{', '.join(names)}: {self.broken[names[0]]}")
        else:
            took = f"({time.monotonic() - begin:.0f} s)" if len(names) == 1 else ""
            for name, verdict in verdicts.items():
                self._note(name, verdict)
                say("  ".join((*self.rows[name], took)), *(f"    WRONG: {wrong}" for wrong in verdict.wrong))
            if not took:
                say(f"({time.monotonic() - begin:.0f} s for these {len(names)}, on one system)")

    def _run(self, place: Harness, names: Names) -> dict[str, Verdict]:
        verdicts = _verdicts(place, names)
        wrong = {name: verdict for name, verdict in verdicts.items() if not verdict.good}
        if not self._again or not wrong or not all(verdict.is_only_slow for verdict in wrong.values()):
            return verdicts
        say(*(f"{name}: {verdict.wrong[0]}; once more" for name, verdict in wrong.items()))
        return _verdicts(place, names)

    def _note(self, name: str, verdict: Verdict) -> None:
        with self._writing:
            self.verdicts[name] = verdict
            self.rows[name] = line(name, verdict, time.strftime("%Y-%m-%d"))
            if self._page is not None:
                merge(self._page, FAULTS, {name: self.rows[name]})

    @property
    def table(self) -> str:
        return markdown(self.rows[name] for name in FAULTS if name in self.rows)

    @property
    def good(self) -> bool:
        return not self.broken and all(verdict.good for verdict in self.verdicts.values())


def _verdicts(place: Harness, names: Names) -> dict[str, Verdict]:
    return dict(zip(names, place.run(*(FAULTS[name]() for name in names)), strict=True))


def run_faults(names: list[str], load: Load, report: Report, *, jobs: int, keep: bool) -> None:
    """Run faults, so many at a time, each of these on a server of its own, and then the greedy ones alone.

    Those that mostly wait run beside the others, as many of them again.
    """
    runs = companies(names) if load.short else [(name,) for name in names]
    greedy = [run for run in runs if any(FAULTS[name].is_greedy for name in run)]
    queues = split(run for run in runs if run not in greedy)

    def lane(waiting: SimpleQueue[Names]) -> None:
        with harness(load, keep=keep) as place, suppress(Empty):
            while True:
                report.run(place, waiting.get_nowait())

    say("  ".join(COLUMNS))
    with ThreadPoolExecutor(jobs * len(queues)) as lanes:
        waiting = [filled(queue) for queue in queues]
        for done in [lanes.submit(lane, queue) for queue in waiting for _ in range(jobs)]:
            done.result()
    lane(filled(greedy))
    say("", report.table)
    for name, reason in (report.left_out | report.broken).items():
        say(f"{name} gave no result: {reason}")


def companies(names: Sequence[str]) -> list[Names]:
    """Put faults together that may strike one system; these first, because they take longest."""
    together: dict[str, list[str]] = {}
    for name in names:
        together.setdefault(FAULTS[name].company or name, []).append(name)
    return sorted(map(tuple, together.values()), key=len, reverse=True)


def split(runs: Iterable[Names]) -> list[list[Names]]:
    """Part the faults that have the machine work from those that wait."""
    runs = list(runs)
    return [
        [run for run in runs if any(FAULTS[name].waits for name in run) is waits] for waits in (False, True)
    ]


def filled(runs: Iterable[Names]) -> SimpleQueue[Names]:
    """Give a queue of these."""
    queue = SimpleQueue[Names]()
    for run in runs:
        queue.put(run)
    return queue


def run_mutants(names: list[str]) -> int:
    """Run the harness on each mutant, and give the exit code: 1 when it let one pass."""
    passed = 0
    for mutant in (each for each in MUTANTS if not names or any(name in each.name for name in names)):
        found, wrong = mutants.run(mutant)
        passed += not found
        say(f"| {'found' if found else 'NOT FOUND'} | {mutant.name} | {mutant.fault} | {wrong[:160]} |")
    return int(passed > 0)


def run_soak(minutes: float, rate: float, *, keep: bool) -> int:
    """Soak, say what was measured, and give the exit code."""
    fault = soak.Soak()
    fault.seconds = minutes * 60
    with harness(Load(rate=rate / soak.MESSAGES_A_SEND), keep=keep) as place:
        (verdict,) = place.run(fault)
        lines = list(soak.report(fault, verdict, place.history))
    say(*lines)
    return int(any(text.startswith("WRONG") for text in lines))


def end_all(_number: int, _frame: object) -> None:
    """End at once, with every process that was started, and say where each run was."""
    faulthandler.dump_traceback()
    for pid in children(os.getpid()) - {os.getpid()}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(KILLED)


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"by default all: {', '.join(FAULTS)}")
    parser.add_argument("--rounds", type=int, help="how often each strikes (by default a few times)")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="how long to work on after the last strike"
    )
    parser.add_argument("--rate", type=float, help="sends a second (40); of a soak: messages a second (300)")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to soak")
    parser.add_argument(
        "--jobs",
        type=int,
        default=JOBS,
        help="how many faults run at a time (2); as many that mostly wait run beside them",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="for CI: half the strikes of each but kill-driver; one that was only slow runs once more",
    )
    parser.add_argument("--keep", action="store_true", help="keep the logs in /tmp/rowbus-chaos-…")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="put the lines of these faults into its table"
    )
    given = parser.parse_args()
    unknown = [name for name in given.faults if name not in FAULTS]
    if unknown and given.faults[0] not in {"mutants", "soak"}:
        parser.error(f"no such fault: {', '.join(unknown)}")
    return given


def main() -> int:
    """Do what the command line says, and give the exit code."""
    given = parsed()
    signal.signal(signal.SIGTERM, end_all)
    if given.faults[:1] == ["soak"]:
        return run_soak(given.minutes, given.rate or 300.0, keep=given.keep)
    if given.faults[:1] == ["mutants"]:
        return run_mutants(given.faults[1:])
    load = Load(None if given.short else given.rounds, given.seconds, given.rate or 40.0, given.short)
    report = Report(again=given.short, page=given.write)
    named = given.faults or [name for name, fault in FAULTS.items() if fault.is_short or not given.short]
    run_faults(named, load, report, jobs=given.jobs, keep=given.keep)
    return int(not report.good)


if __name__ == "__main__":
    sys.exit(main())
