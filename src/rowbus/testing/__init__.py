"""For users' tests: endpoints that run in a test, a temporary database, and handlers without a database.

```python
outcome = asyncio.run(run_handlers(sales, PlaceOrder("42", 9.5)))
assert outcome.error is None
assert outcome.sends[0].read(ChargeCard) == ChargeCard("42", 9.5)
```

Invariant: names only; the modules say what holds.
"""

from __future__ import annotations

from rowbus.messages.dispatch import AppendedEvent
from rowbus.testing.database import temporary_database
from rowbus.testing.delayed_store import DelayedMessageStoreContract
from rowbus.testing.handlers import run_handlers
from rowbus.testing.outcome import Outcome, SentMessage
from rowbus.testing.running import Running, SyncRunning, running
from rowbus.testing.sagas import FakeClock, SagaScenario

__all__ = [
    "AppendedEvent",
    "DelayedMessageStoreContract",
    "FakeClock",
    "Outcome",
    "Running",
    "SagaScenario",
    "SentMessage",
    "SyncRunning",
    "run_handlers",
    "running",
    "temporary_database",
]
