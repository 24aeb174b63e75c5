"""Any session can take the lock of the one mover: movers that stand by name who has it, and so do commands."""

from __future__ import annotations

import json
import logging
from datetime import timedelta

import pytest

import rowbus
from rowbus.cli.delayed import list_
from rowbus.database.locks import UNSEEN, LockHolder, find_holders_now, name_holders
from rowbus.endpoint import delayed_delivery
from rowbus.errors import StorageError
from rowbus.messages.headers import Identity
from rowbus.running.critical import Alarm
from rowbus.transport.delayed.mover import MoverService
from rowbus.transport.delayed.moves import Fallback
from rowbus.transport.delayed.table import delayed_table
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually
from tests.transport.delayed.table import Delayed, headers_of

QUICK = rowbus.NativeDelayedDelivery(standby_delay=timedelta(milliseconds=50))


async def require_shown_locks(backend: Backend) -> None:
    if not await backend.shows_locks():
        pytest.skip("this server does not say who holds a lock: it has no sys.dm_tran_locks")


async def test_a_mover_that_stands_by_says_who_has_the_lock(
    backend: Backend, delayed: Delayed, caplog: pytest.LogCaptureFixture
) -> None:
    await require_shown_locks(backend)
    await delayed.create()
    table = delayed_table(delayed.address)
    holder = await backend.database.connect()
    assert await holder.run(table.try_lead())
    caplog.set_level(logging.INFO, "rowbus")
    fallback = Fallback(
        backend.queue("Sales"), backend.queue("error"), Identity("Sales", "machine", "0" * 32)
    )
    mover = MoverService(backend.database, delayed.address, fallback, QUICK, Alarm(lambda *_: None))

    await mover.start()
    await eventually(lambda: any("Standing by" in record.getMessage() for record in caplog.records))
    await mover.stop()

    (line,) = [record.getMessage() for record in caplog.records if "Standing by" in record.getMessage()]
    assert "(process " in line
    assert "of the server" in line
    (found,) = await holder.run(table.leaders())
    assert str(found.pid) in line
    await holder.close()


async def test_the_list_of_tables_names_who_has_the_lock(
    backend: Backend, delayed: Delayed, capsys: pytest.CaptureFixture[str]
) -> None:
    await require_shown_locks(backend)
    await delayed.create()
    table = delayed_table(delayed.address)
    with backend.database.session() as session:
        assert find_holders_now(session, table.leaders()) is None
    holder = await backend.database.connect()
    await holder.run(table.try_lead())

    list_(as_json=True, database=backend.dsn, schema=None)

    (listed,) = [
        entry for entry in json.loads(capsys.readouterr().out) if entry["table"] == str(delayed.address)
    ]
    assert "of the server" in listed["mover"]
    await holder.close()


async def test_a_session_that_may_not_know_says_so(backend: Backend, delayed: Delayed) -> None:
    """As on SQL Server without VIEW SERVER STATE, where asking is an error."""
    await delayed.create()
    session = await backend.database.connect()

    def refuse(*_: object) -> list[LockHolder]:
        raise StorageError("VIEW SERVER STATE permission was denied", sqlstate="42000", transient=False)

    refused = delayed_table(delayed.address).leaders()._replace(decode=refuse)
    assert await name_holders(session, refused) == UNSEEN
    await session.close()


async def test_a_worker_moves_what_is_due_before_it_receives_whoever_leads(
    backend: Backend, delayed: Delayed, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that replaces one that died may die of the first message that it receives."""
    monkeypatch.setattr(delayed_delivery, "of_this_process", object)
    await delayed.create()
    holder = await backend.database.connect()
    assert await holder.run(delayed_table(delayed.address).try_lead())
    row = headers_of("1", "Shop.Messages.PlaceOrder", backend.queue("Sales"))
    await delayed.insert(row, b'{"order_id": "1"}', due_in=-1)
    sales, handled = endpoints.make("Sales", delayed_delivery=QUICK), list[str]()

    @sales.handler
    async def place_order(message: PlaceOrder) -> None:
        handled.append(message.order_id)

    async with sales:
        await eventually(lambda: handled == ["1"])
    await holder.close()
