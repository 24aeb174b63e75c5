"""Measure the strength of the tests: change src in small ways, and see which changes no test notices.

    python -m tools.mutants --record                 one run of the tests under coverage: who touches what
    python -m tools.mutants --seed 33 --count 300    random changes, as many of each subject as of the others

A change that was noticed says by which test, one that was not is printed whole. `--known FILE` keeps outcomes: a change
that is in it is first tried on the test that noticed it, so that measuring again after tests have changed is quick.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.mutants.changes import Change, changes_in
from tools.mutants.touch import CONFIGURATION, FOLDER, read
from tools.mutants.trials import Outcome, Trials

ROOT = Path(__file__).parents[2]
TOUCHED = ROOT / ".cache" / "touched"
SUBJECTS = ("transport", "log", "database", "endpoint", "sagas", "spark", "web")


def chosen(seed: int, count: int, subjects: tuple[str, ...]) -> list[Change]:
    """Draw the changes; the same seed draws the same ones as long as src is the same."""
    draw = random.Random(seed)  # noqa: S311 - which changes, no secret
    found: list[Change] = []
    for place, subject in enumerate(subjects):
        files = sorted(
            path for path in (ROOT / "src/rowbus" / subject).rglob("*") if path.suffix in {".py", ".sql"}
        )
        possible = [change for path in files for change in changes_in(ROOT / "src", path)]
        number = count // len(subjects) + (place < count % len(subjects))
        found += draw.sample(possible, min(number, len(possible)))
    return found


def record() -> int:
    """Run the tests once under coverage, in as many processes as `make test` does."""
    TOUCHED.mkdir(parents=True, exist_ok=True)
    for old in TOUCHED.iterdir():
        old.unlink()
    configuration = TOUCHED / "configuration"
    configuration.write_text(CONFIGURATION.format(source=ROOT / "src", folder=TOUCHED), encoding="utf-8")
    environment = os.environ | {"COVERAGE_PROCESS_START": str(configuration), FOLDER: str(TOUCHED)}
    tests = ["-p", "tools.mutants.touch", "-n", "3", "--dist", "loadgroup", "-q", "-m", "not slow"]
    code = subprocess.call([sys.executable, "-m", "pytest", *tests], cwd=ROOT, env=environment)
    combine = [sys.executable, "-m", "coverage", "combine", "-q", f"--rcfile={configuration}"]
    return subprocess.call(combine, cwd=ROOT) or code


def main() -> int:
    """Read the command line, and do it."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="record first which test touches what")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=0, metavar="N")
    parser.add_argument("--subject", action="append", choices=SUBJECTS, help="only these, by default all")
    parser.add_argument("--known", type=Path, metavar="FILE", help="keep outcomes here, one a line")
    parser.add_argument("--jobs", type=int, default=3, metavar="N")
    given = parser.parse_args()
    code = record() if given.record else 0
    if given.count:
        changes = chosen(given.seed, given.count, tuple(given.subject or SUBJECTS))
        report(list(outcomes(changes, given.known, given.jobs)))
    return code


def outcomes(changes: list[Change], known: Path | None, jobs: int) -> Iterator[Outcome]:
    """Try the changes, several at a time; print each outcome as it comes, and keep it."""
    trials = Trials(ROOT, read(TOUCHED, ROOT / "src"))
    before = (
        dict(map(json.loads, known.read_text(encoding="utf-8").splitlines()))
        if known and known.exists()
        else {}
    )

    def attempt(change: Change) -> Outcome:
        noticed_by = before.get(change.id)
        return trials.run(change, [noticed_by] if noticed_by else [])

    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(attempt, changes):
            text = (ROOT / "src" / outcome.change.path).read_text(encoding="utf-8")
            print(
                f"{outcome.noticed_by or f'SURVIVES {outcome.tried} tests'}: {outcome.change.shown(text)}",
                flush=True,
            )
            if known:
                with known.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([outcome.change.id, outcome.noticed_by]) + "\n")
            yield outcome


def report(found: list[Outcome]) -> None:
    """Print the share that was noticed, by subject."""
    tried = Counter(Path(outcome.change.path).parts[1] for outcome in found)
    noticed = Counter(Path(outcome.change.path).parts[1] for outcome in found if outcome.noticed_by)
    for subject, number in [*tried.items(), ("all", tried.total())]:
        seen = noticed.total() if subject == "all" else noticed[subject]
        print(f"{subject:10} {seen:4} of {number:4} noticed: {seen / number:.0%}")


if __name__ == "__main__":
    sys.exit(main())
