"""The tests that every delayed message store must pass: `rowbus.testing.DelayedMessageStoreContract`.

Invariant: each test is one sentence of `rowbus.DelayedMessageStore`, and fails for a store that breaks it, with a
sentence that says how; none asks for more. Plain functions under the hood, so that any test runner, with or without
asynchronous tests, can run them.
"""

from __future__ import annotations

from rowbus.testing.delayed_store.order import FailureCountContract, OrderContract
from rowbus.testing.delayed_store.storage import StorageContract
from rowbus.testing.delayed_store.transactions import EnlistmentContract, LockContract, TransactionContract


class DelayedMessageStoreContract(
    StorageContract,
    OrderContract,
    FailureCountContract,
    LockContract,
    TransactionContract,
    EnlistmentContract,
):
    """Tests of a store: subclass it in a module of tests, for pytest, and write `make_store`.

    ```python
    class TestMyStore(rowbus.testing.DelayedMessageStoreContract):
        def make_store(self) -> rowbus.DelayedMessageStore:
            return MyStore("…")
    ```

    `make_store` is called once or more in a test: each call gives another instance on the same storage, as another
    process would have; before each test that storage is empty (have a fixture empty it). What is left is initialized,
    set up and closed here.

    A store without transactions has `has_transactions = False` and writes `expire_leases`; one that overrides `enlist`
    writes `open_connection`.
    """
