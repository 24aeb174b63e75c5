"""A connection is made, used and closed in one thread: a driver that meets another ends the process by a signal."""

from __future__ import annotations

import json
from pathlib import Path

from tests.database.sqlserver.standin import driver
from tests.fixtures.processes import Programs

PROGRAM = Path(__file__).with_name("stopping_program.py")
ROOT = Path(__file__).parents[3]
TIMES = 500


def test_calls_that_are_stopped_cancelled_and_timed_out_500_times_cost_no_process_its_life(
    database: str, tmp_path: Path
) -> None:
    driver.prepare_database(database)
    given = {"root": str(ROOT), "standin": database, "times": TIMES}
    programs = Programs(tmp_path, "")
    try:
        program = programs.start(PROGRAM, json.dumps(given))
        code = program.wait()
    finally:
        programs.end()
    assert (code, program.lines) == (0, ["ended"])
