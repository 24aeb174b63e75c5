"""The files of `examples/deploy`, and a program for them to run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.fixtures.places import ROOT
from tests.repository.pages import Terminal, blocks

DEPLOY: Final = ROOT / "examples" / "deploy"
HOW_TO: Final = ROOT / "docs" / "how-to"
ROWBUS: Final = Path(sys.executable).parent / "rowbus"
SHOP: Final = """
import asyncio
import rowbus

sales = rowbus.Endpoint("Sales")


@sales.handler("Shop.PlaceOrder")
async def place_order(order: dict) -> None:
    print("began", order["id"], flush=True)
    await asyncio.sleep(0.5)
    print("placed", order["id"], flush=True)
"""


def is_shown(name: str, page: str) -> bool:
    """Say whether a page shows a file as it is."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    return any(block.text == text for block in blocks((HOW_TO / page).read_text(encoding="utf-8")))


def begin(
    command: Sequence[str], folder: Path, environment: dict[str, str]
) -> tuple[subprocess.Popen[str], Terminal]:
    """Start a command that is left running, in a folder with the program."""
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    )
    return process, Terminal(process)
