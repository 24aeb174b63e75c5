"""`python -m tests.chaos [FAULT …]`: run faults, print the table; exit code 1 when a promise was broken.

`python -m tests.chaos mutants [PART OF A NAME …]` runs it on mutants of the product, and `python -m tests.chaos soak
[--minutes M] [--rate R]` has everything work for long without faults. `make chaos` is the first of the three.
docs/reliability.md describes them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.chaos import mutants, soak
from tests.chaos.checker import Verdict
from tests.chaos.faults import FAULTS
from tests.chaos.faults.fault import Unavailable
from tests.chaos.mutants import MUTANTS
from tests.chaos.run import Harness, Load, harness
from tests.chaos.table import COLUMNS, line, markdown, write


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run_faults(names: list[str], load: Load, *, keep: bool, page: Path | None) -> int:
    """Run faults, say what each showed, and give the exit code."""
    verdicts: dict[str, Verdict] = {}
    left_out: dict[str, str] = {}
    say("  ".join(COLUMNS))
    with harness(load, keep=keep) as place:
        for name in names:
            _run(place, name, verdicts, left_out)
    say()
    say(markdown(verdicts))
    for name, reason in left_out.items():
        say(f"{name} was left out: {reason}")
    if page is not None:
        write(page, _with_date(markdown(verdicts)))
    return int(not all(verdict.good for verdict in verdicts.values()))


def _run(place: Harness, name: str, verdicts: dict[str, Verdict], left_out: dict[str, str]) -> None:
    begin = time.monotonic()
    try:
        verdict = verdicts[name] = place.run(FAULTS[name]())
    except Unavailable as reason:
        left_out[name] = str(reason)
        return
    say("  ".join((*line(name, verdict), f"({time.monotonic() - begin:.0f} s)")))
    for wrong in verdict.wrong:
        say(f"    WRONG: {wrong}")


def _with_date(table: str) -> str:
    return f"Written by `python -m tests.chaos --write` on {time.strftime('%Y-%m-%d')}.\n\n{table}"


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
        verdict = place.run(fault)
        lines = list(soak.report(fault, verdict, place.history))
    for text in lines:
        say(text)
    return int(any(text.startswith("WRONG") for text in lines))


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"by default all: {', '.join(FAULTS)}")
    parser.add_argument("--rounds", type=int, help="how often each strikes (by default a few times)")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="how long to work on after the last strike"
    )
    parser.add_argument("--rate", type=float, help="sends a second (40); of a soak: messages a second (300)")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to soak")
    parser.add_argument("--short", action="store_true", help="the short form, for CI: a few strikes of each")
    parser.add_argument("--keep", action="store_true", help="keep the logs in /tmp/rowbus-chaos-…")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    given = parser.parse_args()
    if given.faults[:1] == ["soak"]:
        return run_soak(given.minutes, given.rate or 300.0, keep=given.keep)
    if given.faults[:1] == ["mutants"]:
        return run_mutants(given.faults[1:])
    unknown = [name for name in given.faults if name not in FAULTS]
    if unknown:
        parser.error(f"no such fault: {', '.join(unknown)}")
    load = Load(None if given.short else given.rounds, given.seconds, given.rate or 40.0)
    return run_faults(given.faults or list(FAULTS), load, keep=given.keep, page=given.write)


if __name__ == "__main__":
    sys.exit(main())
