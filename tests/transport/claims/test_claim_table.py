"""Values in a table of ours: they come and go with the message's transaction, and nothing that is needed is swept."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import rowbus
from rowbus.database.statements import run_as_one
from rowbus.errors import (
    ClaimNotFoundError,
    ConfigurationError,
    QueueNotFoundError,
    StorageError,
    Unrecoverable,
)
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.messages.message import KeptValue
from rowbus.running.critical import Alarm
from rowbus.testing import run_handlers
from rowbus.transport.claims.claim_table import MONTH, ClaimKeeper, key_of, value_id_of
from rowbus.transport.claims.decisions import PART, parts_of, time_to_keep
from rowbus.transport.claims.table import claimed_values
from rowbus.transport.queues.installer import create_table
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints
from tests.conformance.transport import eventually
from tests.fixtures.every import every
from tests.fixtures.processes import Programs

if TYPE_CHECKING:
    from tests.conformance.backend import Backend
    from tests.transport.requests.conftest import Clients

VALUES: Final = "ClaimedValues"
DATA_BUS: Final = "NServiceBus.DataBus"
SCAN: Final = bytes(range(256)) * 100
LIMIT: Final = 30


@rowbus.command("Shop.Messages.SendInvoice", rename="pascal")
@dataclass
class SendInvoice:
    order_id: str
    scan: bytes
    note: str | None = None


@rowbus.event("Shop.Messages.InvoiceSent", rename="pascal")
@dataclass
class InvoiceSent:
    order_id: str
    scan: bytes


@rowbus.message("Shop.Messages.Scan", rename="pascal")
@dataclass
class Scan:
    scan: bytes


NAMES: Final[dict[type | str, list[str]]] = {
    SendInvoice: ["Scan", "Note"],
    InvoiceSent: ["Scan"],
    Scan: ["Scan"],
}
CHECK: Final = rowbus.ClaimCheck(properties=NAMES)
INVOICE: Final = SendInvoice("42", SCAN, 'späť "quoted"')


async def install(backend: Backend, *queues: str) -> None:
    for queue in queues:
        await backend.create_queue(queue)
    session = await backend.database.connect()
    await create_table(session, claimed_values(backend.queue(VALUES)), "the table")
    await session.close()


def named(backend: Backend) -> str:
    """Return the table's name as the database's SQL has it."""
    address = backend.queue(VALUES)
    return str(getattr(address, "qualified", address))


async def ids(backend: Backend) -> set[object]:
    """Return the ids of the values that are kept."""
    return set(await backend.values(f"select id from {named(backend)}"))


def keys(headers: dict[str, str | None]) -> list[str]:
    return [
        value or ""
        for name, value in headers.items()
        if name.startswith(f"{DATA_BUS}.") and value != "application/json"
    ]


# ------------------------------------------------------------------------------------------------- with the message


async def test_values_commit_with_their_message_and_handlers_see_them(endpoints: Endpoints) -> None:
    backend, seen = endpoints.backend, list[SendInvoice]()
    sales = endpoints.make("Sales")
    sales.use(CHECK)

    @sales.handler
    async def invoice(message: SendInvoice, context: rowbus.Context) -> None:
        assert not any(name.startswith(DATA_BUS) for name in context.headers)
        seen.append(message)

    async with sales:
        await sales.send_local(INVOICE)

        async def done() -> bool:
            return bool(seen) and await backend.count("Sales") == 0

        await eventually(done)
    assert seen == [INVOICE]
    assert await backend.count(VALUES) == 2, "others may want them: an audit copy, another subscriber"


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
async def test_nothing_is_orphaned_by_a_client(endpoints: Endpoints, *, commits: bool) -> None:
    backend = endpoints.backend
    await install(backend, "Sales", "Sales.Delayed")
    async with backend.transaction(force_rollback=not commits):
        await backend.client(mutators=[CHECK]).send("Sales", INVOICE)

    assert await backend.count("Sales") == (1 if commits else 0)
    assert await backend.count(VALUES) == (2 if commits else 0)


async def test_a_client_in_autocommit_sends_all_or_nothing(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await install(backend)
    with pytest.raises(QueueNotFoundError):
        await backend.client(mutators=[CHECK]).send("Nowhere", INVOICE)
    assert await backend.count(VALUES) == 0


async def test_what_a_handler_sent_before_it_failed_leaves_no_values(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.use(CHECK)
    tried = list[bool]()

    @sales.handler("Shop.Begin")
    async def begin(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.send_local(INVOICE)
        tried.append(True)
        raise ValueError("no such article")

    async with sales:
        await sales.send_local({}, type="Shop.Begin")

        async def failed() -> bool:
            return await backend.count(ERROR) == 1

        await eventually(failed)
    assert tried
    assert await backend.count(VALUES) == 0


async def test_all_copies_of_an_event_have_one_value(endpoints: Endpoints) -> None:
    backend, seen = endpoints.backend, list[str]()

    def subscriber(name: str) -> rowbus.Endpoint:
        endpoint = endpoints.make(name)
        endpoint.use(CHECK)

        @endpoint.handler
        async def sent(message: InvoiceSent) -> None:
            assert message.scan == SCAN
            seen.append(name)

        return endpoint

    async with subscriber("Billing"), subscriber("Shipping") as shipping:
        await shipping.publish(InvoiceSent("42", SCAN))
        await eventually(lambda: sorted(seen) == ["Billing", "Shipping"])
        assert await backend.count(VALUES) == 1
        async with backend.transaction():
            await backend.client(mutators=[CHECK]).publish(InvoiceSent("43", SCAN))
        await eventually(lambda: len(seen) == 4)
    assert await backend.count(VALUES) == 2


async def test_an_event_without_subscribers_leaves_no_values(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales")
    sales.use(CHECK)
    async with sales:
        await sales.publish(InvoiceSent("42", SCAN))
        async with backend.transaction():
            await backend.client(mutators=[CHECK]).publish(InvoiceSent("43", SCAN))
    assert await backend.count(VALUES) == 0


async def test_many_are_sent_with_their_values_in_bounded_batches(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowbus.transport.composition.BATCH_BYTES", 3 * len(SCAN))
    backend = endpoints.backend
    await install(backend, "Sales")

    def invoices() -> Iterator[SendInvoice]:
        for number in range(20):
            yield SendInvoice(str(number), SCAN)

    async with backend.transaction():
        sent = await backend.client(mutators=[CHECK]).send_many("Sales", invoices())
    assert sent == 20
    assert await backend.count("Sales") == await backend.count(VALUES) == 20
    rows = await backend.rows("Sales")
    assert {value_id_of(key, backend.queue(VALUES)) for row in rows for key in keys(row.headers)} == {
        str(value).lower() for value in await ids(backend)
    }


async def test_a_delayed_message_finds_its_value_when_it_is_due(endpoints: Endpoints) -> None:
    backend, seen = endpoints.backend, list[SendInvoice]()
    sales = endpoints.make("Sales")
    sales.use(CHECK)

    @sales.handler
    async def invoice(message: SendInvoice) -> None:
        seen.append(message)

    async with sales:
        await sales.send_local(INVOICE, delay=timedelta(milliseconds=50))
        async with backend.transaction():
            await backend.client(mutators=[CHECK]).send("Sales", INVOICE, delay=timedelta(milliseconds=50))
        await eventually(lambda: seen == [INVOICE, INVOICE])


async def test_create_missing_creates_the_table_too(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    async with backend.transaction():
        await backend.client(mutators=[CHECK], create_missing=True).send("Sales", INVOICE)
    assert await backend.count(VALUES) == 2


async def test_without_the_table_the_error_says_how_to_have_it(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await backend.create_queue("Sales")
    with pytest.raises(StorageError, match="schema install MODULE:ENDPOINT"):
        await backend.client(mutators=[CHECK]).send("Sales", INVOICE)
    assert await backend.count("Sales") == 0


# ------------------------------------------------------------------------------------------------------ on the wire


@pytest.mark.parametrize("by_convention", [False, True], ids=["property", "convention"])
async def test_headers_and_bodies_are_those_of_dotnet(endpoints: Endpoints, *, by_convention: bool) -> None:
    backend = endpoints.backend
    await install(backend, "Sales")
    check = rowbus.ClaimCheck(properties={SendInvoice: ["Scan"]}, by_convention=by_convention)
    async with backend.transaction():
        await backend.client(mutators=[check]).send("Sales", SendInvoice("42", b"\1\2\3"))

    (row,) = await backend.rows("Sales")
    (value,) = await backend.values(f"select content from {named(backend)}")
    (value_id,) = await ids(backend)
    key = key_of(backend.queue(VALUES), str(value_id).lower())
    claim = {name: text for name, text in row.headers.items() if name.startswith(DATA_BUS)}
    assert bytes(value) == b'"AQID"'
    if by_convention:
        assert json.loads(row.body or b"")["Scan"] is None
        assert claim.pop(f"{DATA_BUS}.Shop.Messages.SendInvoice.Scan") == key
    else:
        assert json.loads(row.body or b"")["Scan"] == {"Key": key, "HasValue": True}
        assert claim.pop(f"{DATA_BUS}.{key}") == key
    assert claim == {f"{DATA_BUS}Config.ContentType": "application/json"}


# ------------------------------------------------------------------------------------------------------------ faults


async def test_a_missing_value_is_tried_again_then_in_the_error_queue_and_handled_once_it_is_back(
    endpoints: Endpoints,
) -> None:
    backend, seen = endpoints.backend, list[SendInvoice]()
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=1, delayed=0))
    sales.use(CHECK)
    await install(backend, "Sales")
    values = named(backend)

    @sales.handler
    async def invoice(message: SendInvoice) -> None:
        seen.append(message)

    async with backend.transaction():
        await backend.client(mutators=[CHECK]).send("Sales", SendInvoice("42", SCAN))
    await backend.execute(f"update {values} set part = 7")

    async def failed() -> bool:
        return await backend.count(ERROR) == 1

    async with sales:
        await eventually(failed)
        (row,) = await backend.rows(ERROR)
        text = row.headers[Header.EXCEPTION_MESSAGE] or ""
        assert f"is not in {backend.queue(VALUES)}" in text
        assert "rowbus errors retry" in text
        await backend.execute(f"update {values} set part = 0")
        await backend.insert(sales.address, json.dumps(row.headers), row.body)
        await eventually(lambda: seen == [SendInvoice("42", SCAN)])


async def test_a_failed_attempt_finds_the_value_again(endpoints: Endpoints) -> None:
    seen = list[SendInvoice]()
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=2, delayed=0))
    sales.use(CHECK)

    @sales.handler
    async def invoice(message: SendInvoice) -> None:
        seen.append(message)
        if len(seen) < 3:
            raise ValueError("not yet")

    async with sales:
        await sales.send_local(INVOICE)
        await eventually(lambda: seen == [INVOICE] * 3)


@pytest.mark.parametrize(
    "key, error",
    [
        pytest.param(
            "2026-11-23_07/0b6a1a1e-8f4e-4d8b-9a53-6f1d6a8b2c11", "sent with another store", id="a file"
        ),
        pytest.param(
            'table:"other"."ClaimedValues":0b6a1a1e-8f4e-4d8b-9a53-6f1d6a8b2c11',
            'in the table "other"',
            id="elsewhere",
        ),
        pytest.param("table:public.ClaimedValues", "no key of a table", id="no id"),
    ],
)
async def test_a_key_of_another_store_is_refused_at_once(endpoints: Endpoints, key: str, error: str) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=3, delayed=0))
    sales.use(CHECK)

    @sales.handler
    async def invoice(message: SendInvoice) -> None:
        raise AssertionError

    headers = {
        Header.MESSAGE_ID: "1",
        Header.ENCLOSED_MESSAGE_TYPES: "Shop.Messages.SendInvoice",
        Header.CONTENT_TYPE: "application/json",
        f"{DATA_BUS}.{key}": key,
    }
    body = json.dumps({"OrderId": "42", "Scan": {"Key": key, "HasValue": True}}).encode()
    async with sales:
        await backend.insert(sales.address, json.dumps(headers), body)

        async def failed() -> bool:
            return await backend.count(ERROR) == 1

        await eventually(failed)
    (row,) = await backend.rows(ERROR)
    assert error in (row.headers[Header.EXCEPTION_MESSAGE] or "")
    assert "rowbus errors retry" in (row.headers[Header.EXCEPTION_MESSAGE] or "")


async def test_values_count_against_the_size_that_a_message_may_have(endpoints: Endpoints) -> None:
    backend, seen = endpoints.backend, list[bytes]()
    sales = endpoints.make(
        "Sales", recoverability=rowbus.Recoverability(immediate=3, delayed=0), max_message_size=40_000
    )
    sales.use(CHECK)

    @sales.handler
    async def invoice(message: SendInvoice) -> None:
        seen.append(message.scan)

    async with sales:
        await sales.send_local(SendInvoice("1", SCAN, "x" * 20_000))
        await sales.send_local(SendInvoice("2", SCAN))

        async def done() -> bool:
            return await backend.count(ERROR) == 1 and bool(seen)

        await eventually(done)
    (row,) = await backend.rows(ERROR)
    assert "max_message_size" in (row.headers[Header.EXCEPTION_MESSAGE] or "")
    assert seen == [SCAN]


def test_a_file_share_refuses_the_key_of_a_table(share: rowbus.FileShare) -> None:
    with pytest.raises(Unrecoverable, match="in a table"):
        share.get(key_of(QueueAddress("public", VALUES), "0b6a1a1e-8f4e-4d8b-9a53-6f1d6a8b2c11"))


def test_without_a_transaction_nothing_is_lost_in_silence() -> None:
    headers: dict[str, str | None] = {Header.ENCLOSED_MESSAGE_TYPES: "Shop.Messages.SendInvoice"}
    with pytest.raises(ConfigurationError, match="mutators"):
        CHECK.outgoing(headers, b'{"Scan":"AQID"}')


def test_values_must_be_kept_for_some_time() -> None:
    with pytest.raises(ConfigurationError, match="keep_for"):
        rowbus.ClaimTable(keep_for=timedelta(0))


# ------------------------------------------------------------------------------------------------------------- sweep


async def keep(backend: Backend, *value_ids: str, keep_for: timedelta) -> None:
    address = backend.queue(VALUES)
    session = await backend.database.connect()
    for value_id in value_ids:
        value = KeptValue(address, value_id, b'"AQID"', keep_for)
        await run_as_one(session, list(claimed_values(address).keep(value, keep_for)))
    await session.close()


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


async def test_the_keeper_sweeps_what_is_over_and_nothing_younger(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await install(backend)
    await keep(backend, uuid(0), keep_for=timedelta(hours=1))
    await keep(backend, *map(uuid, range(1, 250)), keep_for=timedelta(microseconds=1))
    pool = backend.pool()
    await pool.open()
    keeper = ClaimKeeper(pool, backend.queue(VALUES), Alarm(lambda *_: None))

    async def only_the_young() -> bool:  # SQL Server's times have 1/300 s
        await keeper.forget()
        return {str(value).lower() for value in await ids(backend)} == {uuid(0)}

    await eventually(only_the_young)
    await pool.close()


async def test_a_running_endpoint_sweeps_its_table(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await install(backend)
    await keep(backend, uuid(1), keep_for=timedelta(milliseconds=1))
    sales = endpoints.make("Sales")
    sales.use(CHECK)
    async with sales:

        async def swept() -> bool:
            return await backend.count(VALUES) == 0

        await eventually(swept)


NOW: Final = datetime(2026, 11, 23, tzinfo=UTC)
DAY: Final = timedelta(days=1)


@every(
    "due, time_to_be_received, kept",
    [
        (None, None, MONTH),
        (90 * DAY, None, MONTH + 90 * DAY),
        (NOW + 90 * DAY, None, MONTH + 90 * DAY),
        (NOW - DAY, None, MONTH),
        (None, 60 * DAY, MONTH + 60 * DAY),
        (timedelta.max, timedelta.max, timedelta(days=365_000)),
    ],
)
def test_a_value_outlives_every_wait_that_was_asked_for(
    due: timedelta | datetime | None, time_to_be_received: timedelta | None, kept: timedelta
) -> None:
    assert time_to_keep(MONTH, due=due, time_to_be_received=time_to_be_received, now=NOW) == kept


async def test_a_delayed_message_of_a_year_keeps_its_value_for_longer(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await install(backend, "Sales")
    await backend.client(mutators=[CHECK], create_missing=True).send("Sales", INVOICE, delay=365 * DAY)
    column = "keep_until" if backend.name == "PostgreSQL" else "KeepUntil"
    (until, *_) = await backend.values(f"select {column} from {named(backend)}")
    assert until.replace(tzinfo=UTC) - datetime.now(UTC) > 394 * DAY


# ------------------------------------------------------------------------------------------------------------- parts


@every("size", [0, 1, PART, PART + 1, 2 * PART])
def test_parts_are_the_value(size: int) -> None:
    parts = list(parts_of(b"x" * size))
    assert b"".join(parts) == b"x" * size
    assert len(parts) == max(1, -(-size // PART))


async def test_a_value_of_several_parts_is_whole_and_one_with_a_gap_is_missing(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowbus.transport.claims.decisions.parts_of.__defaults__", (1000,))
    backend, seen = endpoints.backend, list[SendInvoice]()
    await install(backend, "Sales")
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.use(CHECK)

    @sales.handler
    async def invoice(message: SendInvoice) -> None:
        seen.append(message)

    async def failed() -> bool:
        return await backend.count(ERROR) == 1

    async with backend.transaction():
        await backend.client(mutators=[CHECK]).send("Sales", SendInvoice("1", SCAN))
    assert await backend.count(VALUES) > 30
    await backend.execute(f"update {named(backend)} set part = 1000 where part = 3")
    async with sales:
        await eventually(failed)
        await sales.send_local(SendInvoice("2", SCAN))
        await eventually(lambda: seen == [SendInvoice("2", SCAN)])


# ----------------------------------------------------------------------------------------------------------- requests


async def test_requests_and_answers_have_values_in_the_table(endpoints: Endpoints, clients: Clients) -> None:
    billing = endpoints.make("Billing")
    billing.use(CHECK)

    @billing.handler
    async def invoice(message: SendInvoice, context: rowbus.Context) -> None:
        await context.reply(Scan(message.scan[::-1]))

    async with billing, clients.make(mutators=[CHECK]) as client:
        answer = await client.request("Billing", INVOICE, Scan, timeout=LIMIT)
        assert answer.scan == SCAN[::-1]


async def test_an_answer_whose_value_is_gone_is_the_askers_error(
    endpoints: Endpoints, clients: Clients
) -> None:
    backend = endpoints.backend
    billing = endpoints.make("Billing")
    billing.use(rowbus.ClaimCheck(rowbus.ClaimTable(keep_for=timedelta(microseconds=1)), NAMES))
    sweep = claimed_values(backend.queue(VALUES)).sweep()

    class Sweeping(rowbus.Mutator):
        """Between the answer's arrival and its reading."""

        def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
            with backend.database.session() as session:
                while session.run(sweep):
                    pass
            return body

        def blocks(self, headers: Mapping[str, str | None]) -> bool:
            return True

    @billing.handler("Shop.Ask")
    async def ask(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply(Scan(SCAN))

    async with billing, clients.make(mutators=[CHECK, Sweeping()]) as client:
        with pytest.raises(ClaimNotFoundError):
            await client.request("Billing", {}, Scan, type="Shop.Ask", timeout=LIMIT)


async def test_an_answer_whose_value_is_slow_to_read_holds_up_no_other(
    endpoints: Endpoints, clients: Clients
) -> None:
    """A store that answers only when another answer, which came later, has been handed over."""
    goes_on = threading.Event()

    class Slow:
        def put(self, value: bytes) -> str:
            return value.decode()

        def get(self, key: str) -> bytes:
            assert goes_on.wait(LIMIT)
            return key.encode()

    check = rowbus.ClaimCheck(Slow(), {"Shop.Slow": ["Scan"]})
    billing = endpoints.make("Billing")
    billing.use(check)

    @billing.handler("Shop.Ask")
    async def ask(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply({"Scan": "a"}, type=message["answer"])

    async with billing, clients.make(mutators=[check]) as client:
        slow = asyncio.create_task(
            client.request("Billing", {"answer": "Shop.Slow"}, dict, type="Shop.Ask", timeout=LIMIT)
        )
        quick = client.request("Billing", {"answer": "Shop.Quick"}, dict, type="Shop.Ask", timeout=LIMIT)
        assert await quick == {"Scan": "a"}
        assert not slow.done()
        goes_on.set()
        assert await slow == {"Scan": "a"}


# ------------------------------------------------------------------------------------------------- without a database


async def test_handlers_are_tested_without_a_table() -> None:
    sales, seen = rowbus.Endpoint("Sales", database="host=nowhere"), list[SendInvoice]()
    sales.use(CHECK)

    @sales.handler
    async def invoice(message: SendInvoice, context: rowbus.Context) -> None:
        seen.append(message)
        await context.send("Archive", message)

    outcome = await run_handlers(sales, INVOICE)
    assert outcome.error is None
    assert seen == [INVOICE]


# -------------------------------------------------------------------------------------------------------- large values


@pytest.mark.slow
@pytest.mark.one_version
def test_a_value_of_fifty_megabytes_goes_through_in_bounded_memory(database: str, tmp_path: Path) -> None:
    """Sending and receiving in one process hold a few copies: the object, its text, the body, and the parts."""
    programs = Programs(tmp_path, database)
    try:
        program = programs.start(Path(__file__).with_name("measured.py"), "50")
        assert program.wait() == 0, program.lines
    finally:
        programs.end()
    once, many = (float(line) for line in program.lines)
    assert once < 12
    assert many < 1, "a hundred values of 2.5 MB, sent together, are not in memory at a time"
