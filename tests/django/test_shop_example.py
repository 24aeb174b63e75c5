"""The shop of examples/django_shop: a web application and an endpoint with workers, as processes of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import httpx
import psycopg
import pytest

from tests.fixtures.command_line import CommandLine
from tests.fixtures.places import ROOT
from tests.fixtures.processes import await_that

pytestmark = pytest.mark.one_version

SHOP = ROOT / "examples" / "django_shop"
MANAGE = "import runpy; runpy.run_path('manage.py', run_name='__main__')"
SERVE_WEB = "import uvicorn; uvicorn.run('asgi:application', port=0, lifespan='off')"


@pytest.fixture
def project(rowbus: CommandLine) -> CommandLine:
    """Give the command line in a copy of the project, with its tables and queues."""
    shutil.copytree(SHOP, rowbus.folder, dirs_exist_ok=True)
    migrating = rowbus.start_python(MANAGE, "migrate")
    migrating.wait_for(r"Applying orders.0001_initial... OK")
    assert migrating.wait() == 0
    return rowbus


@pytest.fixture
def shop(project: CommandLine) -> Iterator[httpx.Client]:
    """Give a client of the running shop."""
    web = project.start_python(SERVE_WEB)
    (found,) = web.wait_for(r"running on (http://\S+)")
    with httpx.Client(base_url=found[1], timeout=60) as client:
        yield client


def counted(database: str, table: str) -> int:
    with psycopg.connect(database) as connection:
        found = connection.execute(f'select count(*) from "{table}"'.encode()).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_orders_are_handled_and_those_that_fail_leave_nothing_behind(
    project: CommandLine, shop: httpx.Client, database: str, workers: str
) -> None:
    serving = project.start_python(MANAGE, "rowbus", "run", f"--workers={workers}")
    for item in ("apple", "pear"):
        shop.put(f"/stock/{item}", content=json.dumps(5)).raise_for_status()

    assert shop.post("/orders/fine", json={"apple": 1, "pear": 2}).status_code == 200
    assert shop.post("/orders/short", json={"apple": 1, "pear": 50}).status_code == 200
    assert shop.post("/orders/heavy", json={"pear": 101}).status_code == 500

    await_that(lambda: shop.get("/orders/fine").json() == "invoiced 3 items", "the invoice")
    await_that(lambda: counted(database, "error") == 1, "the order that cannot be delivered")
    serving.wait_for("Order fine is invoiced 3 items")
    assert counted(database, "Sales") == 0
    assert shop.get("/orders/short").json() == "received"
    assert shop.get("/orders/heavy").status_code == 404
    assert [shop.get(f"/stock/{item}").json() for item in ("apple", "pear")] == [4, 3]


def test_its_models_are_what_its_migration_makes(project: CommandLine) -> None:
    checking = project.start_python(MANAGE, "makemigrations", "--check")
    checking.wait_for("No changes detected")
    assert checking.wait() == 0


def test_the_command_line_is_on_the_database_of_the_settings(project: CommandLine, database: str) -> None:
    listing = project.start_python(MANAGE, "rowbus", "queue", "list")
    listing.wait_for('"public"."Sales"')
    assert listing.wait() == 0
    failing = project.start_python(MANAGE, "rowbus", "errors", "retry", "no-such-id")
    assert failing.wait() != 0
