"""The programs of examples/ run, print what they say they print, and leave nothing behind."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.places import ROOT

NOT_A_PROGRAM_OF_THIS_KIND = {"make_orders.py"}  # writes a file; tests/demo/test_demo.py runs it
PROGRAMS = [
    path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in NOT_A_PROGRAM_OF_THIS_KIND
]


def said_to_print(program: Path) -> str:
    """Return what a program's docstring says that it prints."""
    docstring = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
    _, says, printed = docstring.partition("\n\nPrints:\n\n")
    assert says, f"the docstring of {program.name} does not say what it prints"
    return textwrap.dedent(printed) + "\n"


def run(program: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        check=False,
        text=True,
        env=os.environ | environment,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(dsn: str) -> list[tuple[str, ...]]:
    """Return the databases of the server and the tables of this one, but for what other tests make and drop."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select 'database', datname from pg_database where datname not like 'rowbus_test%' "
            "union select 'table', relname from pg_class where relnamespace = 'public'::regnamespace order by 1, 2"
        ).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_an_example_prints_what_it_says_and_leaves_nothing_behind(program: Path, database: str) -> None:
    before = contents(database)

    assert run(program, ROWBUS_DATABASE=database) == said_to_print(program)

    assert contents(database) == before


def test_every_program_is_found() -> None:
    assert len(PROGRAMS) >= 4
