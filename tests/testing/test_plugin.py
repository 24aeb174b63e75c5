"""The plugin of pytest, as a user's project has it: its tests run in a pytest of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

pytestmark = pytest.mark.one_version

CONFTEST = """
import asyncio

import pytest
import rowbus

sales = rowbus.Endpoint("Sales")
seen = []


@sales.handler("Shop.PlaceOrder")
def place(order: dict):
    seen.append(order["id"])


@pytest.fixture(scope="session")
def rowbus_prepare():
    def prepare(dsn):
        with open("prepared", "a") as file:
            print(dsn, file=file)
        asyncio.run(rowbus.Endpoint("Prepared", database=dsn).install())

    return prepare
"""
TESTS = """
import asyncio

import psycopg
import pytest
from rowbus.testing import running

from conftest import sales, seen


@pytest.mark.parametrize("number", range(3))
def test_each_has_a_database_of_its_own(rowbus_database, number):
    with psycopg.connect(rowbus_database) as connection:
        assert connection.execute('select count(*) from "Prepared"').fetchone() == (0,)
        connection.execute("create table mine (id int)")
    with running(sales, database=rowbus_database) as bus:
        bus.send("Sales", {"id": number}, type="Shop.PlaceOrder")
        bus.drain()
    assert seen == list(range(number + 1))


def test_a_coroutine(rowbus_database):
    async def place():
        async with running(sales, database=rowbus_database) as bus:
            await bus.send("Sales", {"id": 42}, type="Shop.PlaceOrder")
            await bus.drain()

    asyncio.run(place())
    assert seen[-1] == 42
"""
ASYNCIO = """
import pytest
from rowbus.testing import running

from conftest import sales, seen


@pytest.mark.asyncio
async def test_with_pytest_asyncio(rowbus_database):
    async with running(sales, database=rowbus_database) as bus:
        await bus.send("Sales", {"id": 7}, type="Shop.PlaceOrder")
        await bus.drain()
    assert seen == [7]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_with_anyio(rowbus_database):
    async with running(sales, database=rowbus_database) as bus:
        await bus.send("Sales", {"id": 8}, type="Shop.PlaceOrder")
        await bus.drain()
    assert seen[-1] == 8
"""


def run_pytest(folder: Path, dsn: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a user's tests to their end."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "pytest_rowbus",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, *options],
        cwd=folder,
        env=os.environ | {"ROWBUS_DATABASE": dsn},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def databases(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("select datname from pg_database where datname like 'rowbus_temporary_%'")
        return {name for (name,) in rows}


def test_each_test_has_a_copy_of_a_database_that_is_prepared_once_and_none_is_left(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_shop.py").write_text(TESTS)
    before = databases(database)
    ran = run_pytest(tmp_path, database, "-p", "no:asyncio", "-p", "no:anyio")

    assert "4 passed" in ran.stdout, ran.stdout
    assert len((tmp_path / "prepared").read_text().splitlines()) == 1
    assert databases(database) <= before


def test_coroutines_run_with_the_plugins_for_them(tmp_path: Path, database: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_shop.py").write_text(ASYNCIO)
    ran = run_pytest(tmp_path, database)

    assert "2 passed" in ran.stdout, ran.stdout


def test_a_pytest_that_does_not_use_it_loads_nothing_of_rowbus(tmp_path: Path, database: str) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys, json\n\ndef test_it():\n    print(json.dumps([m for m in sys.modules if 'rowbus' in m]))\n"
    )
    ran = run_pytest(tmp_path, database, "-s")

    assert "1 passed" in ran.stdout, ran.stdout
    assert json.loads(ran.stdout.splitlines()[0].rstrip(".")) == ["pytest_rowbus"]
