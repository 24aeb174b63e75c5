"""Django's ORM on the receive transaction, sending in `transaction.atomic()`, and `manage.py rowbus`.

```python
# the module `endpoints` of an app
sales = rowbus.django.Endpoint("Sales")


@sales.handler
def place_order(message: PlaceOrder, context: rowbus.SyncContext) -> None:
    Order.objects.create(id=message.order_id)  # commits with the message, or not at all
    context.publish(OrderPlaced(message.order_id))
```

Invariant: nothing here ends the receive transaction, and no connection of Django's stays open in a handler's thread
for longer than CONN_MAX_AGE.
"""

from __future__ import annotations

from rowbus.errors.extras import require

require("django", "django", what="rowbus.django")

from rowbus.django.databases import client  # noqa: E402 - imports Django
from rowbus.django.endpoint import Endpoint  # noqa: E402 - imports Django

__all__ = ["Endpoint", "client"]
