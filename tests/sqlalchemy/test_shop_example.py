"""The shop of examples/shop: a web application and an endpoint, as processes of their own."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy.dialects import mssql
from sqlalchemy.schema import CreateTable

from tests.conformance.backend import Backend
from tests.conformance.transport import eventually
from tests.fixtures.command_line import CommandLine
from tests.fixtures.places import ROOT
from tests.fixtures.processes import await_that

SHOP = ROOT / "examples" / "shop"
SERVE_WEB = "import uvicorn; uvicorn.run('web:app', port=0)"
SERVE_ENDPOINT = "from rowbus.cli import main; main()"


@pytest.fixture
def shop(rowbus: CommandLine) -> Iterator[httpx.Client]:
    """Give a client of the running shop."""
    shutil.copytree(SHOP, rowbus.folder, dirs_exist_ok=True)
    web = rowbus.start_python(SERVE_WEB)
    (found,) = web.wait_for(r"running on (http://\S+)")
    rowbus.start_python(SERVE_ENDPOINT, "run", "shop:sales").wait_for("is receiving")
    with httpx.Client(base_url=found[1], timeout=60) as client:
        yield client


def counted(database: str, table: str) -> int:
    with psycopg.connect(database) as connection:
        found = connection.execute(f'select count(*) from "{table}"'.encode()).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.slow
def test_orders_are_handled_and_those_that_fail_leave_nothing_behind(
    shop: httpx.Client, database: str
) -> None:
    for item in ("apple", "pear"):
        shop.put(f"/stock/{item}", params={"count": 5}).raise_for_status()

    assert shop.post("/orders/fine", json={"apple": 1, "pear": 2}).status_code == 202
    assert shop.post("/orders/short", json={"apple": 1, "pear": 50}).status_code == 202
    assert shop.post("/orders/heavy", json={"pear": 101}).status_code == 409

    await_that(lambda: shop.get("/orders/fine").json() == "invoiced 3 items in EUR", "the invoice")
    await_that(lambda: counted(database, "error") == 1, "the order that cannot be delivered")
    assert counted(database, "Sales") == 0
    assert shop.get("/orders/short").json() == "received"
    assert shop.get("/orders/heavy").status_code == 404
    assert [shop.get(f"/stock/{item}").json() for item in ("apple", "pear")] == [4, 3]


# ------------------------------------------------------------------------------------------------------- SQL Server


@pytest.fixture
async def model(backend: Backend) -> AsyncIterator[Any]:
    """Give the shop's module, its tables in the stand-in's default schema."""
    model = importlib.import_module("examples.shop.shop")
    on: Any = backend
    on_sqlserver: Any = mssql.dialect()  # type: ignore[no-untyped-call]
    tables = model.Base.metadata.sorted_tables
    for table in tables:
        await on.execute(str(CreateTable(table).compile(dialect=on_sqlserver)))
    yield model
    for table in (*reversed(tables), *("Sales", "error", "Sales.Delayed", "SubscriptionRouting")):
        await on.execute(f"drop table if exists dbo.[{table}]")


@pytest.mark.only("SQL Server", reason="on PostgreSQL it runs as processes")
@pytest.mark.standin
async def test_its_handlers_run_on_sql_server_too(backend: Backend, model: Any) -> None:  # noqa: ANN401 - a module
    on: Any = backend
    await on.execute("insert into shop_stock (item, [left]) values ('apple', 5), ('pear', 5)")
    for order, pears in (("fine", 2), ("short", 50)):
        await on.execute(f"insert into shop_orders (id, state) values ('{order}', 'received')")
        await on.execute(
            "insert into shop_lines (order_id, item, quantity) "
            f"values ('{order}', 'apple', 1), ('{order}', 'pear', {pears})"
        )
    model.sales.database = backend.dsn

    async def states() -> list[str]:
        return [str(state) for state in await on.values("select state from shop_orders order by id")]

    async def settled() -> bool:
        found = await on.values("select count(*) from error")
        return found == [1] and await states() == ["invoiced 3 items in EUR", "received"]

    async with model.sales as sales:
        for order in ("fine", "short"):
            await sales.send("Sales", model.PlaceOrder(order))
        await eventually(settled)

    assert await on.values("select [left] from shop_stock order by item") == [4, 3]
