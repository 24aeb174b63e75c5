"""The shop's web application: an order's row and its message are in one transaction.

Serve it with `uvicorn web:app`; the database is that of ROWBUS_DATABASE, else the embedded one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import psycopg
from fastapi import Depends, FastAPI, HTTPException
from shop import Base, Line, Order, PlaceOrder, Stock, sales
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import rowbus


async def connect() -> psycopg.AsyncConnection:
    """Connect where the endpoint does; with an address of your own, give it to `create_async_engine`."""
    return await psycopg.AsyncConnection.connect(rowbus.resolve_dsn())


engine = create_async_engine("postgresql+psycopg://", async_creator=connect)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
    """Create what is missing, before the first request."""
    await sales.install()
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


async def session() -> AsyncGenerator[AsyncSession]:
    """Give a request a session; what it does not commit is undone."""
    async with AsyncSession(engine, expire_on_commit=False) as session:
        yield session


app = FastAPI(lifespan=lifespan)
Database = Annotated[AsyncSession, Depends(session)]


@app.put("/stock/{item}", status_code=204)
async def fill(item: str, count: int, database: Database) -> None:
    """Say how many of an item there are."""
    async with database.begin():
        await database.merge(Stock(item=item, left=count))


@app.get("/stock/{item}")
async def left(item: str, database: Database) -> int:
    """Say how many of an item are left."""
    return (await database.get_one(Stock, item)).left


@app.post("/orders/{order_id}", status_code=202)
async def place(order_id: str, items: dict[str, int], database: Database) -> str:
    """Save an order and have it handled: both, or neither. The commit comes before the answer."""
    if not items:
        raise HTTPException(422, "An order has items.")
    async with database.begin():
        lines = [Line(item=item, quantity=quantity) for item, quantity in items.items()]
        database.add(Order(id=order_id, lines=lines))
        await rowbus.AsyncClient(database).send("Sales", PlaceOrder(order_id))
        if sum(items.values()) > 100:  # noqa: PLR2004 - more than the shop can carry
            raise HTTPException(409, "That is too much.")
    return order_id


@app.get("/orders/{order_id}")
async def state(order_id: str, database: Database) -> str:
    """Say how far an order is."""
    order = await database.get(Order, order_id)
    if order is None:
        raise HTTPException(404, "There is no such order.")
    return order.state
