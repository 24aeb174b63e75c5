"""The wheel, installed where nothing of the checkout is, on a machine without Java, does what docs/data.md says.

What the wheel needs is not downloaded once more: the new environment sees the packages of this one behind its own, and
the wheel hides the checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import psycopg
import pytest

import rowbus
from tests.fixtures.places import ROOT
from tests.fixtures.spark import everything_but_java


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, and give the folder of the programs of an environment that it is installed in."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT])
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"])
    (wheel,) = folder.glob("rowbus-*.whl")
    run([*pip, "--python", folder / "venv", "install", "--no-deps", "--no-index", wheel])
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "behind.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder / "venv" / "bin"


@pytest.fixture
def log_with_an_order(log_database: str) -> str:
    """Give a database whose log `orders` has the event of docs/data.md, ticked."""
    with psycopg.connect(log_database, autocommit=True) as connection:
        connection.execute("select pgq.create_queue('orders')")
        rowbus.Log(connection, "orders").append({"order": "45", "total": 3.5}, type="order_placed")
        connection.execute("select pgq.force_tick('orders'), pgq.ticker('orders')")
    return log_database


@pytest.mark.slow
@pytest.mark.turns("kills with Spark", 3)
@pytest.mark.spark
@pytest.mark.one_version
@pytest.mark.timeout(300)
def test_ten_lines_stream_a_log_to_parquet(installed: Path, log_with_an_order: str, tmp_path: Path) -> None:
    script = re.search(
        r"^# archive.py\n.*?(?=^```$)", (ROOT / "docs" / "data.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert script is not None
    assert len(script[0].splitlines()) <= 10
    (tmp_path / "archive.py").write_text(script[0], encoding="utf-8")
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{installed}{os.pathsep}{everything_but_java(tmp_path / 'bin')}",
        "ROWBUS_DATABASE": log_with_an_order,
    }

    where = run([installed / "python", "-P", "-c", "import rowbus; print(rowbus.__file__)"], env=environment)
    first = run([installed / "python", "-P", "archive.py"], env=environment, cwd=tmp_path)
    again = run([installed / "python", "-P", "archive.py"], env=environment, cwd=tmp_path)

    assert Path(where.strip()).is_relative_to(installed.parent)
    assert first == again
    assert '|1    |order_placed|{"order":"45","total":3.5}|' in first
    assert first.count("|order_placed|") == 1


def run(command: list[str | Path], **how: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, **how)  # type: ignore[call-overload]  # environment and folder
    assert done.returncode == 0, done.stderr
    return str(done.stdout)
