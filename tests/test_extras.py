"""Parts that need an extra say which, and name an install that works from where this Rowbus came from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rowbus.errors import extras
from rowbus.errors.extras import install_command, requirement
from tests.fixtures.every import every


@every(
    "note, command",
    [
        (None, 'pip install "rowbus[spark]"'),
        ({"url": "file:///srv/row%20bus", "dir_info": {}}, 'pip install "/srv/row bus[spark]"'),
        (
            {"url": "file:///srv/rowbus", "dir_info": {"editable": True}},
            'pip install --editable "/srv/rowbus[spark]"',
        ),
        (
            {"url": "file:///srv/rowbus-1.0-py3-none-any.whl", "archive_info": {}},
            'pip install "rowbus[spark] @ file:///srv/rowbus-1.0-py3-none-any.whl"',
        ),
        (
            {"url": "https://git.example/rowbus", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            'pip install "rowbus[spark] @ git+https://git.example/rowbus@abc"',
        ),
    ],
)
def test_an_extra_comes_from_where_rowbus_came_from(
    note: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = None if note is None else json.dumps(note)
    found = SimpleNamespace(read_text=lambda _name: text)
    monkeypatch.setattr(extras, "distribution", lambda _name: found)

    assert install_command("spark") == command


@every(
    "note, named",
    [
        (None, "rowbus[embedded]"),
        (
            {"url": "file:///srv/row%20bus", "dir_info": {"editable": True}},
            "rowbus[embedded] @ file:///srv/row%20bus",
        ),
        (
            {"url": "https://git.example/rowbus", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "rowbus[embedded] @ git+https://git.example/rowbus@abc",
        ),
    ],
)
def test_a_project_depends_on_where_rowbus_came_from(
    note: dict[str, object] | None, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = None if note is None else json.dumps(note)
    monkeypatch.setattr(extras, "distribution", lambda _name: SimpleNamespace(read_text=lambda _file: text))

    assert requirement("embedded") == named


WITHOUT_EXTRAS = """
import importlib.util, sys
hidden = ("sqlalchemy", "django", "starlette", "uvicorn", "jinja2", "markupsafe")
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in hidden else found(name, *rest)
sys.modules.update(dict.fromkeys(hidden))
for module in ("rowbus.sqlalchemy", "rowbus.django", "rowbus.web:application"):
    name, _, attribute = module.partition(":")
    try:
        __import__(name, fromlist=[attribute])
    except ImportError as error:
        print(error, file=sys.stderr)
sys.argv = ["rowbus", "web", "--embedded"]
from rowbus.cli import main
main()
"""


def test_what_needs_an_extra_says_so() -> None:
    """A program in which the packages cannot be found; also who tries an import hears of it."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False, timeout=100
    )

    assert done.stderr.splitlines() == [
        f"rowbus.sqlalchemy needs sqlalchemy: {install_command('sqlalchemy')}",
        f"rowbus.django needs django: {install_command('django')}",
        f"rowbus.web.application needs starlette, jinja2: {install_command('web')}",
        f"rowbus: rowbus web needs starlette, uvicorn, jinja2: {install_command('web')}",
    ]


@pytest.mark.slow
def test_the_command_is_one_that_pip_takes(tmp_path: Path) -> None:
    """Pip resolves it without an index, as far as Rowbus itself and nothing more."""
    arguments = install_command("sqlserver").replace('"', "").split()[1:]

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            *arguments,
            "--dry-run",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=100,
    )

    assert done.returncode == 0, done.stderr
