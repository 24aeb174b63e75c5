"""The units of docs/how-to/run-workers.md: systemd accepts them, and what they start ends as they say."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

import rowbus
from tests.deploying.places import DEPLOY, ROWBUS, begin, is_shown
from tests.fixtures.every import every

UNITS = ["shop-sales.service", "shop-ticker.service"]


def unit(name: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(DEPLOY / name, encoding="utf-8")
    return parsed


def test_the_page_shows_the_unit_of_an_endpoint() -> None:
    assert is_shown("shop-sales.service", "run-workers.md")


@every("name", UNITS)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("there is no systemd-analyze")
    text = (DEPLOY / name).read_text(encoding="utf-8").replace("/opt/shop/.venv/bin/rowbus", str(ROWBUS))
    (tmp_path / name).write_text(text.replace("User=shop", "User=root"), encoding="utf-8")

    done = subprocess.run(
        [verify, "verify", "--man=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"SYSTEMD_LOG_LEVEL": "warning"},
    )

    ours = [line for line in (done.stderr + done.stdout).splitlines() if name in line]
    assert ours == []


def test_systemd_waits_longer_than_handlers_have() -> None:
    service = unit("shop-sales.service")["Service"]
    command = shlex.split(service["ExecStart"])

    assert int(service["TimeoutStopSec"]) > int(command[command.index("--drain") + 1])
    assert service["KillMode"] == "mixed"


@pytest.mark.one_version
@pytest.mark.timeout(120)
def test_the_unit_s_command_finishes_what_is_in_hand_at_sigterm(database: str, tmp_path: Path) -> None:
    command = shlex.split(unit("shop-sales.service")["Service"]["ExecStart"])
    environment = os.environ | {"ROWBUS_DATABASE": database}
    install, output = begin([str(ROWBUS), "schema", "install", "shop"], tmp_path, environment)
    assert install.wait(60) == 0, output

    process, terminal = begin([str(ROWBUS), *command[1:]], tmp_path, environment)
    try:
        with psycopg.connect(database) as connection:
            rowbus.Client(connection).send("Sales", {"id": 1}, type="Shop.PlaceOrder")
        terminal.await_lines("began 1\n")
        process.terminate()
        terminal.await_lines("placed 1\n")
        assert process.wait(60) == 0
    finally:
        terminal.kill()
