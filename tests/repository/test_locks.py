"""Files that the Makefile installs: by their hashes, built by what is locked; and what `make audit` says."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tools import audit

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
OLDEST = "spark-oldest.lock"  # what is there beside the newest of dev.lock
PACKAGE = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    return dict(PACKAGE.findall((ROOT / "requirements" / name).read_text("utf-8")))


def commands() -> list[str]:
    """Give the lines of the Makefile that install, with its variables put in."""
    variables = dict(re.findall(r"^(\w+) := (.*)$", MAKEFILE, re.MULTILINE))
    lines = [line.strip() for line in MAKEFILE.splitlines() if line.startswith("\t")]
    for _ in variables:
        lines = [re.sub(r"\$\((\w+)\)", lambda m: variables.get(m[1], m[0]), line) for line in lines]
    return [line for line in lines if " pip " in line]


def test_pip_takes_nothing_without_a_hash_and_builds_with_nothing_it_fetched_itself() -> None:
    for command in commands():
        assert "--no-build-isolation" in command
        assert "--require-hashes" in command or "--no-index --editable ." in command
    assert len(commands()) >= 5


def test_what_builds_is_installed_before_what_is_built() -> None:
    for stamp in ("demo", "dev"):
        (needs,) = re.findall(rf"^\$\(VENV\)/{stamp}\.stamp: (.*)$", MAKEFILE, re.MULTILINE)
        assert "$(VENV)/build.stamp" in needs.partition("|")[0]


def test_every_source_distribution_is_built_by_what_is_locked() -> None:
    (sources,) = re.findall(r'^SOURCES="([^"]*)"', (ROOT / "tools" / "lock").read_text("utf-8"), re.MULTILINE)

    assert sources.split() == ["pyspark"]
    assert {"setuptools", "hatchling", "editables"} <= locked("build.lock").keys()


@every("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_locked_version_has_hashes_and_is_that_of_the_other_locks(lock: Path) -> None:
    text = lock.read_text("utf-8")
    dev = locked("dev.lock")
    is_oldest = lock.name == OLDEST

    for entry in re.findall(r"^[a-z].*(?:\n .*)*", text, re.MULTILINE):
        assert "--hash=sha256:" in entry
    for package, version in locked(lock.name).items():
        assert package in {"deprecated", "numpy"} or (dev.get(package, version) == version) is not is_oldest


# ------------------------------------------------------------------------------------------------------------- audit


def report(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


CLEAN: dict[str, object] = {"name": "rich", "version": "15.0.0", "vulns": []}
UNKNOWN: dict[str, object] = {"name": "pgpq", "skip_reason": "not found"}
BAD: dict[str, object] = {
    "name": "jinja2",
    "version": "3.1.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.6"]}],
}


def test_a_known_vulnerability_fails_and_is_named() -> None:
    answer = audit.read_answer(report(CLEAN, BAD))

    assert audit.must_fail([answer])
    assert "dev.lock: jinja2 3.1.0: PYSEC-1, fixed in 3.1.6" in audit.lines("dev.lock", answer)


def test_one_that_is_accepted_does_not_fail_and_its_reason_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(audit.ACCEPTED, "PYSEC-1", "no template of ours comes from outside")
    answer = audit.read_answer(report(BAD))

    assert not audit.must_fail([answer])
    assert "accepted: no template of ours" in "\n".join(audit.lines("dev.lock", answer))


def test_no_answer_is_neither_a_finding_nor_a_clean_bill(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(pip_audit(tmp_path, report(UNKNOWN, UNKNOWN))))
    silent = audit.ask(tmp_path / "dev.lock")
    monkeypatch.setattr(sys, "executable", str(pip_audit(tmp_path, "")))
    unreachable = audit.ask(tmp_path / "dev.lock")

    for answer in (silent, unreachable):
        assert isinstance(answer, str)
        assert not audit.must_fail([answer])
        assert "COULD NOT ASK" in "".join(audit.lines("dev.lock", answer))


def test_packages_without_an_answer_are_named() -> None:
    answer = audit.read_answer(report(CLEAN, UNKNOWN))

    assert "dev.lock: no answer about pgpq" in audit.lines("dev.lock", answer)


def pip_audit(folder: Path, answer: str) -> Path:
    """Make a program that answers as pip-audit does."""
    (folder / "answer").write_text(answer)
    program = folder / "python"
    program.write_text(f"#!/bin/sh\ncat '{folder}/answer'\n")
    program.chmod(0o700)
    return program
