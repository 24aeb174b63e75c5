"""A connection is made, used and closed in one thread: a driver that meets another ends the process by a signal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.conformance.backend import Backend
from tests.conformance.on_sqlserver import SqlServer, run_on
from tests.fixtures.backends import Place, Standins
from tests.fixtures.processes import Programs

PROGRAM = Path(__file__).with_name("stopping_program.py")
ROOT = Path(__file__).parents[3]
TIMES = 500
LONGEST = 280.0  # seconds


@pytest.mark.only("SQL Server", reason="its driver blocks, so each connection has a thread")
async def test_calls_that_are_stopped_cancelled_and_timed_out_500_times_cost_no_process_its_life(
    backend: Backend, backend_place: Place, standins: Standins, tmp_path: Path
) -> None:
    assert isinstance(backend, SqlServer)
    standin = None if backend_place.server is None else standins.on(backend_place.server).database
    # Babelfish interrupts no wait.
    change = f"set lock_timeout 300; update {backend.table('held')} set number = 1"
    given = {"root": str(ROOT), "standin": standin, "slow": change, "times": TIMES}
    programs = Programs(tmp_path, backend.dsn)
    await backend.execute(f"create table {backend.table('held')} (number int not null)")
    await backend.execute(f"insert into {backend.table('held')} (number) values (0)")
    try:
        async with backend.another_connection() as holding:
            await run_on(holding, change)
            program = programs.start(PROGRAM, json.dumps(given))
            code = await asyncio.to_thread(program.process.wait, LONGEST)
            await backend.end(holding, commits=False)
    finally:
        programs.end()
    assert (code, program.lines) == (0, ["ended"])
