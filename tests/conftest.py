"""Fixtures of all tests, and an environment that decides nothing.

`ROWBUS_TEST_…` are settings of the test suite; every other variable that Rowbus or libpq would read is taken out, so
that a developer's own database is never what the tests run against.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator

import hypothesis
import pytest

from rowbus.running.telemetry.process import REFUSED_AT
from tests.fixtures.processes import heed_control_c

pytest_plugins = [
    "tests.fixtures.database",
    "tests.fixtures.backends",
    "tests.fixtures.command_line",
    "tests.fixtures.levels",
    "tests.fixtures.log",
    "tests.fixtures.pairs",
    "tests.fixtures.pooler",
    "tests.fixtures.rewritten",
    "tests.fixtures.s3",
    "tests.fixtures.spark",
]

for name in list(os.environ):
    if name.startswith("ROWBUS_") and not name.startswith("ROWBUS_TEST_"):
        del os.environ[name]
    # A DSN in ROWBUS_TEST_DATABASE may rest on PGPASSFILE and the like.
    if name.startswith("PG") and "ROWBUS_TEST_DATABASE" not in os.environ:
        del os.environ[name]

heed_control_c()

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("rowbus", deadline=None)
hypothesis.settings.load_profile("rowbus")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect without looking for garbage: all that is made stays, and looking at it takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_teardown() -> None:
    """Forget that a disk was full: a process remembers it for some seconds."""
    REFUSED_AT.clear()
