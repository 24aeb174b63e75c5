"""A real browser opens the page with its ticket, in light and in dark, wide and narrow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.command_line import CommandLine

pytestmark = pytest.mark.one_version

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def chromium() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no browser is installed to look at the page with (Debian: chromium)")
    return found


def dom(browser: str, folder: Path, address: str) -> str:
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    quiet = ["--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--lang=en-GB"]
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [browser, *quiet, *root, profile, "--virtual-time-budget=3000", "--dump-dom", address]
    away = {**os.environ, "TZ": "Asia/Tokyo"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100, env=away)
    return done.stdout


def test_the_ticket_opens_the_overview_and_the_script_runs(
    chromium: str, rowbus: CommandLine, tmp_path: Path
) -> None:
    assert rowbus("queue", "create", "Sales", "<img src=x onerror=alert(1)>").returncode == 0
    running = rowbus.start("web", "--port", "0")
    address = running.wait_for(r"(http://\S+)")[0][1]

    seen = dom(chromium, tmp_path, address)

    assert "<title>Overview · Rowbus</title>" in seen
    assert ">Sales" in seen
    assert "<img src=" not in seen.replace('<img src="/assets/', "")
    assert re.search(r'id="pause"[^>]*aria-pressed="false"[^>]*>Pause updates', seen)
    times = re.findall(r"<time[^>]*>([^<]*)</time>", seen)
    assert times
    assert re.search(r'Times are in <span id="zone">Asia/Tokyo<', seen)
    assert not any(text.endswith("UTC") for text in times)
