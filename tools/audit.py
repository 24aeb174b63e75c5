"""Ask whether a locked version has a known vulnerability: `make audit`.

Exit code 1: a vulnerability was found that `ACCEPTED` does not name. Where the service that knows cannot be asked, this
says so and ends with 0: no answer is no finding, and no clean bill either.

pip-audit's own exit code is no answer to that: it is 0 for packages that the service says nothing of.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LOCKS = Path(__file__).resolve().parent.parent / "requirements"
ACCEPTED: dict[str, str] = {}
"""Vulnerabilities that are known and stay, by id; each with the reason why it does not reach us."""
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A locked version with a known vulnerability."""

    package: str
    version: str
    id: str
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        reason = ACCEPTED.get(self.id)
        end = f"; accepted: {reason}" if reason else ""
        return f"{self.package} {self.version}: {self.id}, fixed in {', '.join(self.fixed_in) or 'no version'}{end}"


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of the service about the packages of one lock."""

    asked: int
    unknown: tuple[str, ...]
    """Packages that it said nothing of."""
    findings: tuple[Finding, ...]

    @property
    def is_silent(self) -> bool:
        """Whether it said nothing of any package."""
        return len(self.unknown) == self.asked


def read_answer(report: str) -> Answer:
    """Read pip-audit's report in JSON."""
    packages = json.loads(report)["dependencies"]
    unknown = tuple(package["name"] for package in packages if "skip_reason" in package)
    findings = (
        Finding(package["name"], package["version"], found["id"], tuple(found["fix_versions"]))
        for package in packages
        for found in package.get("vulns", ())
    )
    return Answer(len(packages), unknown, tuple(findings))


def ask(lock: Path) -> Answer | str:
    """Ask the service about the packages of a lock; gives the reason when it could not be asked."""
    options = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    command = [sys.executable, "-m", "pip_audit", *options, "--requirement", str(lock)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"it took more than {PATIENCE:g} s"
    try:
        answer = read_answer(done.stdout)
    except ValueError:
        return (done.stderr.strip().splitlines() or [f"pip-audit ended with {done.returncode}"])[-1]
    return "the service knows none of the packages" if answer.is_silent else answer


def lines(lock: str, answer: Answer | str) -> Iterable[str]:
    """Say what became of one lock, a finding a line."""
    if isinstance(answer, str):
        yield f"{lock}: COULD NOT ASK, so nothing is known about its packages: {answer}"
        return
    yield f"{lock}: {answer.asked - len(answer.unknown)} packages asked about, {len(answer.findings)} findings"
    if answer.unknown:
        yield f"{lock}: no answer about {', '.join(answer.unknown)}"
    yield from (f"{lock}: {finding}" for finding in answer.findings)


def must_fail(answers: Iterable[Answer | str]) -> bool:
    """Say whether there is a finding that `ACCEPTED` does not name."""
    found = [finding for answer in answers if isinstance(answer, Answer) for finding in answer.findings]
    return any(finding.id not in ACCEPTED for finding in found)


def main() -> int:
    """Audit every lock."""
    answers = {lock.name: ask(lock) for lock in sorted(LOCKS.glob("*.lock"))}
    for name, answer in answers.items():
        print("\n".join(lines(name, answer)))
    return int(must_fail(answers.values()))


if __name__ == "__main__":
    sys.exit(main())
