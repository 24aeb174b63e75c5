"""The command line's help, its refusals, and where it looks for the database."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from rowbus.cli import app
from tests.fixtures import places
from tests.fixtures.command_line import CommandLine, Finished
from tests.fixtures.every import every

APPROVED = places.APPROVED / "cli_help.txt"
WIDTH = 98  # what a terminal of 100 columns gives
ACCEPT = "ROWBUS_TEST_ACCEPT"

pytestmark = pytest.mark.one_version


def commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from commands(child, (*path, name))


def help_of(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(app, [*path, "--help"], prog_name="rowbus", terminal_width=WIDTH)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.output.strip().splitlines()]
    return "\n".join([f"$ {' '.join(('rowbus', *path, '--help'))}", *lines])


def test_the_help_of_every_command_is_the_approved_one() -> None:
    text = "\n\n".join(map(help_of, commands(get_command(app)))) + "\n"

    if ACCEPT in os.environ:
        APPROVED.write_text(text, encoding="utf-8")
    approved = APPROVED.read_text(encoding="utf-8")
    difference = "\n".join(difflib.unified_diff(approved.splitlines(), text.splitlines(), lineterm=""))
    assert not difference, f"If this is meant, run the test again with {ACCEPT}=1:\n{difference}"


def test_a_terminal_of_100_columns_shows_the_approved_help(rowbus: CommandLine) -> None:
    shown = rowbus("run", "--help", COLUMNS="100").stdout

    assert shown.strip() in APPROVED.read_text(encoding="utf-8")


def test_every_command_that_reads_offers_json() -> None:
    reading = [("queue", "list"), ("queue", "peek"), ("schema", "verify"), ("doctor",)]

    assert all("--json" in help_of(path) for path in reading)


def test_the_version_is_printed(rowbus: CommandLine) -> None:
    done = rowbus("--version")

    assert done.returncode == 0
    assert done.stdout.startswith(f"rowbus {version('rowbus')} ")


@every(
    "arguments",
    [
        ["queue", "lst"],
        ["queue", "peek"],
        ["queue", "peek", "Shop.Sales"],
        ["queue", "create", "q" * 56],
        ["queue", "list", "--database", "this is not one"],
        ["queue", "send", "Sales", "{}", "--type", "T", "--ttbr", "soon"],
        ["queue", "send", "Sales", "{}", "--type", "T", "--header", "novalue"],
        ["queue", "send", "Sales", "not json", "--type", "T"],
        ["schema", "install"],
        ["schema", "grants", "--role", "bob", "--queue", "Sales"],
        ["run", "no_colon"],
        ["run", "no.such.module:endpoint"],
        ["run", "json:loads", "--workers", "0"],
    ],
    ids=" ".join,
)
def test_bad_usage_is_one_paragraph_on_the_standard_error_and_exit_code_2(
    rowbus: CommandLine, arguments: list[str]
) -> None:
    done = rowbus(*arguments)

    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_that_cannot_be_reached_is_one_line_and_exit_code_1(rowbus: CommandLine) -> None:
    done = rowbus("queue", "list", ROWBUS_DATABASE="host=127.0.0.1 port=1 password=geheim")

    assert done.returncode == 1
    assert done.stderr.startswith("rowbus: ")
    assert done.stderr.count("\n") == 1
    assert "geheim" not in done.stderr


def test_verbose_shows_where_an_error_comes_from(rowbus: CommandLine) -> None:
    done = rowbus("queue", "list", "-v", "--database", "host=127.0.0.1 port=1")

    assert "Traceback" in done.stderr


def test_a_command_whose_streams_are_closed_does_its_work(rowbus: CommandLine) -> None:
    rowbus("queue", "create", "Sales")
    shell = 'exec "$0" -m rowbus --database "$1" queue list <&- '

    for closing in (">&- 2>&-", "2>&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", shell + closing, sys.executable, rowbus.database],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0
        assert ("Sales" in done.stdout) == (closing == "2>&-")


@pytest.mark.parametrize("place", ["before the command", "after the command"])
def test_the_database_option_beats_the_environment(rowbus: CommandLine, place: str) -> None:
    rowbus("queue", "create", "Sales")

    def listed(given: str) -> Finished:
        option, words = ["--database", given], ["queue", "list"]
        arguments = [*option, *words] if place == "before the command" else [*words, *option]
        return rowbus(*arguments, ROWBUS_DATABASE="host=127.0.0.1 port=1")

    done, empty = listed(rowbus.database), listed("")  # as a variable that is not set

    assert done.returncode == 0, done.stderr
    assert "Sales" in done.stdout
    assert (empty.returncode, "names no database" in empty.stderr) == (2, True)


LOOKED_AT = (
    "import sys; from rowbus.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
)
DRIVER = {"psycopg", "asyncio", "rich"}
WHOLE = {
    "rowbus.facade",
    "rowbus.endpoint",
    "rowbus.spark",
    "rowbus.web",
    "rowbus.sagas.saga",
    "rowbus.bridges",
    "rich",
}
COMPLETING = {"_ROWBUS_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "rowbus qu"}

NOWHERE = ["--database", "host=127.0.0.1 port=1"]
BEFORE_THE_FIRST_QUERY = (
    "queue list",
    "delayed list",
    "errors discard --all --yes",
    "subscriptions list",
    "running list",
    "pause",
    "recurring list Sales",
    "log list",
    "log dead-letters list orders revenue",
    "doctor",
    "metrics",
    "schema verify",
    "endpoint drop Sales --yes",
)


@every(
    "arguments, environment, never",
    [
        (["--help"], {}, DRIVER | WHOLE),
        (["--version"], {}, {"psycopg", "asyncio", "rich"} | WHOLE),
        ([], COMPLETING, DRIVER | WHOLE),
        (["queue", "send", "--help"], {}, WHOLE),
        (["embedded", "--help"], {}, DRIVER | WHOLE),
        (["ticker", "--help"], {}, WHOLE),
    ],
)
def test_a_command_imports_only_what_it_needs(
    arguments: list[str], environment: dict[str, str], never: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOKED_AT, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert {"rowbus.cli", "typer"} <= set(done.stderr.split())
    assert not never & set(done.stderr.split())


FORKING = """
import asyncio, json, os, psycopg, sys
from rowbus.cli import main

for command in json.loads(sys.argv[1]):
    if os.fork() == 0:
        sys.argv[1:] = command
        try:
            main()
        finally:
            print(json.dumps([command, *sys.modules]), flush=True)
            os._exit(0)
    os.wait()
"""
"""What these commands need in any case is imported once; where it needed too much, each of them would be told of."""


def test_a_command_imports_only_what_it_needs_before_the_first_query() -> None:
    wanted = [[*words.split(), *NOWHERE] for words in BEFORE_THE_FIRST_QUERY]

    done = subprocess.run(
        [sys.executable, "-c", FORKING, json.dumps(wanted)], capture_output=True, text=True, check=True
    )

    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [command for command, *_ in told] == wanted
    for command, *modules in told:
        assert not {*WHOLE, "pydantic"} & set(modules), command
        assert "rowbus.database.backends" in modules, command
