"""A real browser shows the page, in light and in dark."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.spark.report.samples import hostile_report, sample_report

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LIGHT, DARK = "1", "0"
PAPER = {LIGHT: (255, 255, 255), DARK: (20, 24, 29)}
BARS = {
    LIGHT: [(47, 111, 189), (224, 138, 46), (42, 157, 143)],
    DARK: [(91, 155, 234), (240, 166, 84), (79, 196, 181)],
}
Pixel = tuple[int, ...]


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
    seen = Counter(pixels(picture.read_bytes()))

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


def pixels(png: bytes) -> Iterator[Pixel]:
    """Give the colours of a PNG's pixels; of what browsers write: 8 bits, with or without transparency."""
    chunks = dict[bytes, bytes]()
    place = 8
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        kind = png[place + 4 : place + 8]
        chunks[kind] = chunks.get(kind, b"") + png[place + 8 : place + 8 + length]
        place += 12 + length
    width, _, depth, colour = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    assert (depth, colour) in {(8, 2), (8, 6)}
    size = 3 if colour == 2 else 4
    data = zlib.decompress(chunks[b"IDAT"])
    above = bytearray(width * size)
    step = width * size + 1
    for begin, end in pairwise(range(0, len(data) + 1, step)):
        line = unfiltered(data[begin], bytearray(data[begin + 1 : end]), above, size)
        yield from zip(line[0::size], line[1::size], line[2::size], strict=True)
        above = line


def unfiltered(kind: int, line: bytearray, above: bytearray, size: int) -> bytearray:
    """Undo a line's filter (PNG specification, section 9)."""
    for place in range(len(line)):
        left = line[place - size] if place >= size else 0
        corner = above[place - size] if place >= size else 0
        guess = (0, left, above[place], (left + above[place]) // 2, paeth(left, above[place], corner))[kind]
        line[place] = (line[place] + guess) & 255
    return line


def paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda value: abs(guess - value))
