"""A web request that saves an order and sends a message, both or neither.

`place_order` is what the view of a web application would do, with SQLAlchemy. If anything in it fails, before or after
the send, there is neither an order nor a message; no outbox, no second system to keep in step.

Prints:

    201 order 1 placed
    500 no stock for order 2
    orders: ['1']
    messages: ['{"order_id":"1"}']
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import psycopg
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

import rowbus
from rowbus.testing import temporary_database


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    """Sent to Sales."""

    order_id: str


def place_order(session: Session, order_id: str, *, in_stock: bool) -> None:
    """Save the order, send the message, reserve the stock: in the session's transaction."""
    session.execute(text("insert into orders values (:id)"), {"id": order_id})
    rowbus.Client(session).send("Sales", PlaceOrder(order_id))
    if not in_stock:
        raise LookupError(f"no stock for order {order_id}")


def request(engine: Engine, order_id: str, *, in_stock: bool) -> str:
    """Answer a request as a web framework would: commit if all went well, else roll back."""
    try:
        with Session(engine) as session, session.begin():
            place_order(session, order_id, in_stock=in_stock)
    except LookupError as error:
        return f"500 {error}"
    return f"201 order {order_id} placed"


def main(dsn: str) -> None:
    """Serve two requests and look at what is in the database."""
    asyncio.run(rowbus.Endpoint("Sales", database=dsn).install())
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with engine.begin() as connection:
        connection.execute(text("create table orders (id text primary key)"))
    print(request(engine, "1", in_stock=True))
    print(request(engine, "2", in_stock=False))
    with engine.begin() as connection:
        print("orders:", connection.scalars(text("select id from orders")).all())
        bodies = text("""select convert_from(body, 'UTF8') from "Sales" """)
        print("messages:", connection.scalars(bodies).all())
    engine.dispose()


if __name__ == "__main__":
    with temporary_database() as temporary:
        main(temporary)
