"""A real browser shows the page, in light and in dark."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from tests.spark.report.samples import hostile_report, sample_report

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LIGHT, DARK = "1", "0"
PAPER = {LIGHT: (255, 255, 255), DARK: (20, 24, 29)}
BARS = {
    LIGHT: [(47, 111, 189), (224, 138, 46), (42, 157, 143)],
    DARK: [(91, 155, 234), (240, 166, 84), (79, 196, 181)],
}


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no browser is installed to look at the page with (Debian: chromium)")
    return found


def look(browser: str, page: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    quiet = ["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [browser, *quiet, *root, profile, "--window-size=600,700", *arguments, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_plots_are_seen(browser: str, tmp_path: Path, scheme: str) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "seen.png"
    page.write_text(sample_report().page(), encoding="utf-8")

    look(browser, page, f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}")
    with Image.open(picture) as image:
        colours = image.convert("RGB").getcolors(maxcolors=image.width * image.height)
    seen = Counter({colour: number for number, colour in colours or []})

    assert seen.most_common(1)[0][0] == PAPER[scheme]
    for colour in BARS[scheme]:
        assert seen[colour] > 500


def test_messages_that_mean_harm_do_none(browser: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(hostile_report().page(), encoding="utf-8")

    seen = look(browser, page, "--dump-dom").stdout

    assert seen.count("<svg") > 10
    assert "<script" not in seen
    assert "<img" not in seen
    assert "&lt;script&gt;alert(1)" in seen
