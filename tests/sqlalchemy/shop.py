"""A small model, in the schema of one test, and what its table holds."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import MetaData, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tests.conformance.backend import Backend


class Shop(NamedTuple):
    """The model's class, and how a test looks at its rows from outside."""

    backend: Any
    order: Any

    @property
    def table(self) -> str:
        named: str = self.backend.table("orders") if hasattr(self.backend, "table") else "public.orders"
        return named

    async def orders(self) -> list[str]:
        found = await self.backend.values(f"select id from {self.table} order by id")
        return [str(name) for name in found]


async def open_shop(backend: Backend) -> Shop:
    """Create the model's table."""

    class Base(DeclarativeBase):
        metadata = MetaData(schema=backend.schema)

    class Order(Base):
        __tablename__ = "orders"

        id: Mapped[str] = mapped_column(String(40), primary_key=True)
        state: Mapped[str] = mapped_column(String(40), default="placed")

    shop = Shop(backend, Order)
    await shop.backend.execute(
        f"create table {shop.table} (id varchar(40) not null primary key, state varchar(40) not null)"
    )
    return shop
