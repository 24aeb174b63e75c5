"""Sessions of SQLAlchemy's ORM on the receive transaction: what they write commits with the message, or not at all.

```python
sales = rowbus.Endpoint("Sales")
sales.provide(AsyncSession, factory=rowbus.sqlalchemy.async_session)


@sales.handler
async def place_order(message: PlaceOrder, context: rowbus.Context, session: AsyncSession) -> None:
    session.add(Order(id=message.order_id))
    await context.publish(OrderPlaced(message.order_id))
```

Invariant: no session made here ends the receive transaction, and none outlives its handler.
"""

from __future__ import annotations

from rowbus.errors.extras import require

require("sqlalchemy", "sqlalchemy", what="rowbus.sqlalchemy")

from rowbus.sqlalchemy.sessions import async_session, session  # noqa: E402 - imports SQLAlchemy

__all__ = ["async_session", "session"]
