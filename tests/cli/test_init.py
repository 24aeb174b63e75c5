"""`rowbus init`: the project that it begins works as its README says, its tests pass, and nothing is overwritten."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rowbus.errors.extras import requirement
from tests.fixtures.command_line import Ask, CommandLine
from tests.fixtures.every import every

pytestmark = pytest.mark.one_version


@pytest.fixture
def project(rowbus: CommandLine) -> Path:
    """Begin a project; commands run in its folder from then on."""
    done = rowbus("init", "shop-floor")
    assert done.returncode == 0, done.stderr
    rowbus.folder /= "shop-floor"
    return rowbus.folder


def said(project: Path, verb: str) -> list[str]:
    """Return the arguments of the README's command that begins so."""
    lines = (project / "README.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"rowbus {verb} ")]
    return shlex.split(line, comments=True)[1:]


def test_its_tests_pass(rowbus: CommandLine, project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
        env=rowbus.environment(),
    )

    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_it_depends_on_a_rowbus_that_can_be_installed(project: Path) -> None:
    stated = tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"]

    assert stated == [requirement("embedded")]
    assert " @ " in stated[0]  # this one came from a folder or a file: the index has none


def test_its_endpoint_serves_in_a_schema_of_its_own(rowbus: CommandLine, project: Path, ask: Ask) -> None:
    installed = rowbus(*said(project, "schema install"))
    assert installed.returncode == 0, installed.stderr
    serving = rowbus.start(*said(project, "run"), GREETING="Good day")
    serving.wait_for("Endpoint ShopFloor is receiving from")

    sent = rowbus(*said(project, "queue send"))

    assert sent.returncode == 0, sent.stderr
    serving.wait_for("Good day, you")
    serving.wait_for("you was greeted")
    assert {
        schema for (schema,) in ask("select schemaname from pg_tables where tablename = 'ShopFloor'")
    } == {"bus"}


@pytest.mark.slow
def test_it_is_typed(rowbus: CommandLine, project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "shop_floor", "tests"],
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
        env=rowbus.environment(),
    )

    assert done.returncode == 0, done.stdout


def test_it_overwrites_nothing(rowbus: CommandLine, project: Path) -> None:
    (project / "README.md").unlink()
    endpoint = project / "shop_floor" / "endpoint.py"
    endpoint.write_text("# mine")

    done = rowbus("init", ".")

    assert done.returncode == 2
    assert "is there already; nothing was written." in done.stderr
    assert endpoint.read_text() == "# mine"
    assert not (project / "README.md").exists()


@every("name", ["1st", "json", "class", "rowbus", "a.b", "Größe", "x" * 41])
def test_a_name_that_cannot_be_imported_is_refused(rowbus: CommandLine, name: str) -> None:
    done = rowbus("init", "new", "--name", name)

    assert done.returncode == 2
    assert "is no name for a package of yours" in done.stderr
    assert not (rowbus.folder / "new").exists()
