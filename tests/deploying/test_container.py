"""The Containerfile of docs/how-to/run-workers.md: what can be checked and run of it without a container."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import rowbus
from tests.deploying.places import DEPLOY, ROWBUS, begin, is_shown

GRACE = 10  # seconds that docker and podman give by default


class Instruction(NamedTuple):
    name: str
    rest: str


def instructions() -> list[Instruction]:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = (line.partition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return [Instruction(name, rest) for name, _, rest in lines]


def last(name: str) -> str:
    return [each.rest for each in instructions() if each.name == name][-1]


def command() -> list[str]:
    return [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]


def test_the_page_shows_the_file() -> None:
    assert is_shown("Containerfile", "run-workers.md")


def test_it_has_known_instructions_and_its_commands_are_a_shells() -> None:
    known = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENV", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {each.name for each in instructions()} <= known
    for each in instructions():
        if each.name == "RUN":
            subprocess.run(["/bin/sh", "-n", "-c", each.rest], check=True)


def test_it_runs_as_a_numbered_user_without_a_shell_or_an_init() -> None:
    assert int(last("USER")) > 0
    assert last("STOPSIGNAL") == "SIGTERM"
    assert command()[:2] == ["rowbus", "run"]
    stages = [each.name for each in instructions()].count("FROM")
    assert stages == 2


def as_process_1() -> list[str]:
    """Return what makes a command the first process of a namespace of its own, as a container does."""
    unshare = shutil.which("unshare")
    made = [unshare or "", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if unshare is None or subprocess.run([*made, "true"], capture_output=True, check=False).returncode:
        pytest.skip("process namespaces cannot be made here")
    return made


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.timeout(120)
@pytest.mark.parametrize("workers", [[], ["--workers", "2"]], ids=["one process", "two workers"])
def test_process_1_finishes_what_is_in_hand_at_sigterm(
    database: str, tmp_path: Path, workers: list[str]
) -> None:
    environment = os.environ | {"ROWBUS_DATABASE": database}
    install, output = begin([str(ROWBUS), "schema", "install", "shop"], tmp_path, environment)
    assert install.wait(60) == 0, output
    process, terminal = begin([*as_process_1(), str(ROWBUS), *command()[1:], *workers], tmp_path, environment)
    try:
        with psycopg.connect(database) as connection:
            rowbus.Client(connection).send("Sales", {"id": 1}, type="Shop.PlaceOrder")
        terminal.await_lines("began 1\n")
        (first,) = (
            Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
        )
        os.kill(int(first), signal.SIGTERM)
        terminal.await_lines("placed 1\n")
        assert process.wait(GRACE) == 0
    finally:
        terminal.kill()
