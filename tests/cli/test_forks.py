"""A command that tests fork (tests/fixtures/forks.py) does what the one does that an interpreter starts."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.fixtures import forked
from tests.fixtures.command_line import CommandLine
from tests.fixtures.every import every
from tests.fixtures.forked import ROWBUS
from tests.fixtures.forks import is_like_ours


@pytest.mark.one_version
@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("queue", "--help"),
        ("queue", "list", "--json"),
        ("queue", "peek", "Nowhere"),
        ("queue", "send", "Nowhere", "--type", "Shop.Ärger"),
        ("no-such-command",),
    ],
    ids=" ".join,
)
def test_it_prints_and_ends_as_one_that_an_interpreter_starts(
    rowbus: CommandLine, arguments: tuple[str, ...]
) -> None:
    environment = rowbus.environment()
    started = subprocess.run(
        [*ROWBUS, *arguments], input=b"", capture_output=True, check=False, cwd=rowbus.folder, env=environment
    )
    copied = forked.run(*arguments, folder=rowbus.folder, environment=environment)

    assert (copied.returncode, copied.stdout, copied.stderr) == (
        started.returncode,
        started.stdout,
        started.stderr,
    )


@every("name", ["PYTHONWARNINGS", "LC_ALL", "PYTHONUNBUFFERED", "FORCE_COLOR"])
def test_one_whose_interpreter_would_start_otherwise_is_not_forked(name: str) -> None:
    environment = os.environ | forked.AS_USERS_HAVE_IT

    assert is_like_ours(environment)
    assert not is_like_ours(environment | {name: "1"})
