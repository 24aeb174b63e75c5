"""Messages in a worker process's hand when it was killed: its supervisor knows, and no file is left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowbus.running import in_hand
from rowbus.running.in_hand import RowInHand
from rowbus.running.workers import FIRST_DELAY, LONGEST_DELAY, LONGEST_DELAY_AFTER_WORK, Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

KILLED = """
import os, signal
from rowbus.running.in_hand import RowInHand, of_this_process

notes = of_this_process()
entry = notes.note(RowInHand("Sales", "1"))
notes.note(RowInHand("Sales", "2", alone=True))
notes.clear(entry)
os.kill(os.getpid(), signal.SIGKILL)
"""
NOTES = "from rowbus.running.in_hand import of_this_process; print(of_this_process())"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


CLEARED = """
import os, signal
from rowbus.running.in_hand import RowInHand, of_this_process

notes = of_this_process()
notes.clear(notes.note(RowInHand("Sales", "1")))
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_what_a_killed_worker_had_in_hand_is_told_and_no_file_is_left_however_the_supervisor_ends(
    temporary: Path,
) -> None:
    told: asyncio.Queue[tuple[Sequence[RowInHand], str, list[Path]]] = asyncio.Queue()

    async def on_death(held: Sequence[RowInHand], how: str) -> bool:
        await told.put((held, how, list(temporary.iterdir())))  # noqa: ASYNC240 - an empty folder
        return True

    workers = Workers([sys.executable, "-c", KILLED], os.environ, 1, on_death)
    await workers.start()
    held, how, files = await told.get()
    again, *_ = await told.get()
    await workers.stop()

    assert held == again == [RowInHand("Sales", "2", alone=True)]
    assert how.endswith("was killed by SIGKILL")
    assert files == []  # so that nothing is left of a supervisor that is killed, either


def test_a_program_that_a_worker_starts_does_not_write_into_the_workers_notes() -> None:
    with in_hand.prepare() as file, in_hand.prepare() as other:
        environment = os.environ | {in_hand.VARIABLE: in_hand.address(file)}
        program = [sys.executable, "-c", NOTES]
        inherited = subprocess.check_output(program, env=environment, pass_fds=[file.fileno()], text=True)
        not_inherited = subprocess.check_output(program, env=environment, text=True)
        os.dup2(
            other.fileno(), file.fileno()
        )  # a file of the same kind under the number that the program is told
        another = subprocess.check_output(program, env=environment, pass_fds=[file.fileno()], text=True)

    assert "InHand object" in inherited
    assert not_inherited == another == "None\n"


@pytest.mark.parametrize(
    "program, longest", [(CLEARED, LONGEST_DELAY_AFTER_WORK), ("raise SystemExit(1)", LONGEST_DELAY)]
)
async def test_a_worker_that_worked_is_replaced_soon_however_often_it_is_killed(
    program: str, longest: float
) -> None:
    workers = Workers([sys.executable, "-c", program], os.environ, 1)

    death = await workers._run(1)

    assert not death.held
    assert [death.delay(deaths) for deaths in (1, 2, 60)] == [FIRST_DELAY, 2 * FIRST_DELAY, longest]
