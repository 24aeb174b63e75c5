"""Claim checks: values are where .NET keeps and looks for them, in both of its forms, and a missing one is no secret.

No recorded row has a claim; the forms are those seen in runs of NServiceBus.ClaimCheck 2.0.1 (docs/wire-format.md).
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pytest

import rowbus
from rowbus.errors import (
    ConfigurationError,
    MessageDeserializationError,
    MessageSerializationError,
    Unrecoverable,
)
from rowbus.messages.headers import Header
from rowbus.testing import run_handlers
from rowbus.transport.claims.claim_check import ClaimCheck
from rowbus.transport.claims.file_share import FileShare
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints
from tests.conformance.transport import eventually
from tests.fixtures.every import every

INVOICE: Final = "Shop.Messages.SendInvoice"
HOUR: Final = "2026-11-23_07"
FILE: Final = "0b6a1a1e-8f4e-4d8b-9a53-6f1d6a8b2c11"
JSON: Final = "application/json"
DATA_BUS: Final = "NServiceBus.DataBus."
CONTENT_TYPE: Final = "NServiceBus.DataBusConfig.ContentType"
TYPES: Final = f"{INVOICE}, Shop.Messages, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null"

Headers = dict[str, str | None]


@rowbus.command(INVOICE, rename="pascal")
@dataclass
class SendInvoice:
    order_id: str
    scan: bytes
    note: str | None = None


def of_dotnet(key: str, *, by_convention: bool = False) -> tuple[Headers, bytes]:
    """Return the headers and the body that .NET writes of a claimed `Scan`."""
    name = f"{INVOICE}.Scan" if by_convention else key
    scan = None if by_convention else {"Key": key, "HasValue": True}
    headers: Headers = {
        Header.ENCLOSED_MESSAGE_TYPES: TYPES,
        Header.CONTENT_TYPE: JSON,
        DATA_BUS + name: key,
        CONTENT_TYPE: JSON,
    }
    return headers, json.dumps({"OrderId": "42", "Scan": scan}).encode()


def keep(share: FileShare, text: bytes, name: str = FILE) -> None:
    """Write a file as .NET does."""
    (share.folder / HOUR).mkdir(exist_ok=True)
    (share.folder / HOUR / name).write_bytes(text)


def files(share: FileShare) -> list[bytes]:
    return [path.read_bytes() for path in share.folder.glob("*/*")]


# ---------------------------------------------------------------------------------------------------- .NET's are read


@pytest.mark.parametrize("by_convention", [False, True], ids=["property", "convention"])
@pytest.mark.parametrize("separator", ["/", "\\"])
async def test_values_that_dotnet_keeps_are_read(
    endpoints: Endpoints, share: FileShare, separator: str, *, by_convention: bool
) -> None:
    backend, handled = endpoints.backend, list[tuple[SendInvoice, bool]]()
    keep(share, b'"AQID"')
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.use(ClaimCheck(share))

    @sales.handler
    async def invoice(message: SendInvoice, context: rowbus.Context) -> None:
        handled.append((message, any(name.startswith(DATA_BUS) for name in context.headers)))

    async with sales:
        headers, body = of_dotnet(f"{HOUR}{separator}{FILE}", by_convention=by_convention)
        await backend.insert(sales.address, json.dumps({**headers, Header.MESSAGE_ID: "1"}), body)

        async def done() -> bool:
            return await backend.count("Sales") == 0

        await eventually(done)

    assert handled == [(SendInvoice("42", b"\1\2\3"), False)]
    assert files(share) == [b'"AQID"']  # other handlers may want it


@every(
    "body, read",
    [
        pytest.param(b'{"OrderId":"42"}', b'{"OrderId":"42","Scan":"AQID"}', id="nulls are left out"),
        pytest.param(b'{"scan":null}', b'{"scan":"AQID"}', id="names in camel case"),
        pytest.param(b'\xef\xbb\xbf{"Scan":null}', b'{"Scan":"AQID"}', id="a byte order mark"),
        pytest.param(b'{"Total":10.00,"Scan":null}', b'{"Total":10.00,"Scan":"AQID"}', id="digits are kept"),
    ],
)
def test_a_value_is_put_into_the_body_as_it_is_spelt(share: FileShare, body: bytes, read: bytes) -> None:
    keep(share, b'\xef\xbb\xbf"AQID"')
    headers, _ = of_dotnet(f"{HOUR}/{FILE}", by_convention=True)
    assert ClaimCheck(share).incoming(headers, body) == read


def test_without_a_content_type_values_are_read_as_json(share: FileShare) -> None:
    keep(share, b'"AQID"')
    headers, body = of_dotnet(f"{HOUR}/{FILE}")
    del headers[CONTENT_TYPE]
    assert ClaimCheck(share).incoming(headers, body) == b'{"OrderId":"42","Scan":"AQID"}'
    assert headers == {Header.ENCLOSED_MESSAGE_TYPES: TYPES, Header.CONTENT_TYPE: JSON}


@every(
    "headers, body",
    [
        pytest.param({}, b'{"Scan":{"Key":"k","HasValue":true}}', id="no header: .NET's value is null, too"),
        pytest.param({DATA_BUS + "k": "k"}, b'{"Scan":{"Key":"k","HasValue":false}}', id="no value"),
        pytest.param({DATA_BUS + "k": "k"}, b'{"Scan":{"Key":7}}', id="a key that is none"),
        pytest.param({DATA_BUS + "Shop.Other.Scan": "k"}, b'{"Scan":null}', id="a property of another type"),
        pytest.param({DATA_BUS + f"{INVOICE}.Scan": ""}, b'{"Scan":null}', id="an empty key"),
        pytest.param({DATA_BUS + "k": "k"}, b"", id="no body"),
    ],
)
def test_what_is_no_claim_stays_as_it_came(share: FileShare, headers: Headers, body: bytes) -> None:
    given = {Header.ENCLOSED_MESSAGE_TYPES: TYPES, **headers}
    assert ClaimCheck(share).incoming(given, body) == body
    assert given == {Header.ENCLOSED_MESSAGE_TYPES: TYPES, **headers}


# ------------------------------------------------------------------------------------------------ ours are as .NET's


@pytest.mark.parametrize("by_convention", [False, True], ids=["property", "convention"])
async def test_rows_and_files_are_those_that_dotnet_reads(
    endpoints: Endpoints, share: FileShare, *, by_convention: bool
) -> None:
    backend = endpoints.backend
    await backend.create_queue("Accounting")
    check = ClaimCheck(share, {SendInvoice: ["Scan", "Note"]}, by_convention=by_convention)
    async with backend.transaction():
        await backend.client(mutators=[check]).send("Accounting", SendInvoice("42", b"\1\2\3"))

    (row,) = await backend.rows("Accounting")
    (path,) = share.folder.glob("????-??-??_??/????????-????-????-????-????????????")
    key = path.relative_to(share.folder).as_posix()
    headers, body = of_dotnet(key, by_convention=by_convention)
    assert path.read_bytes() == b'"AQID"'
    assert json.loads(row.body or b"") == {**json.loads(body), "Note": None}
    assert {name: value for name, value in row.headers.items() if name.startswith("NServiceBus.DataBus")} == {
        name: value for name, value in headers.items() if name.startswith("NServiceBus.DataBus")
    }


@pytest.mark.parametrize("by_convention", [False, True])
async def test_handlers_see_the_values_that_senders_gave(share: FileShare, *, by_convention: bool) -> None:
    sales, seen = rowbus.Endpoint("Sales", database="host=nowhere"), list[SendInvoice]()
    sales.use(ClaimCheck(share, {INVOICE: ["Scan", "Note"]}, by_convention=by_convention))

    @sales.handler
    async def invoice(message: SendInvoice, context: rowbus.Context) -> None:
        seen.append(message)
        await context.send("Archive", message)

    sent = SendInvoice("42", bytes(range(256)), 'späť "quoted"')
    outcome = await run_handlers(sales, sent)

    assert outcome.error is None
    assert seen == [sent]
    assert len(files(share)) == 4  # of two values, received and sent on
    assert b"sp" not in outcome.sends[0].body


def test_other_types_and_other_properties_are_sent_as_they_are(share: FileShare) -> None:
    check = ClaimCheck(share, {"Shop.Other": ["Scan"], INVOICE: ["Missing"]})
    headers: Headers = {Header.ENCLOSED_MESSAGE_TYPES: INVOICE}
    assert check.outgoing(headers, b'{"Scan":"AQID","Total":10.00}') == b'{"Scan":"AQID","Total":10.00}'
    assert headers == {Header.ENCLOSED_MESSAGE_TYPES: INVOICE}
    assert not files(share)


# ------------------------------------------------------------------------------------------------------------- faults


async def test_a_missing_value_is_tried_again_then_in_the_error_queue_and_handled_once_it_is_back(
    endpoints: Endpoints, share: FileShare
) -> None:
    backend, attempts, handled = endpoints.backend, list[str](), list[SendInvoice]()

    class Counting(FileShare):
        def size(self, key: str) -> int:
            attempts.append(key)
            return super().size(key)

    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=1, delayed=0))
    sales.use(ClaimCheck(Counting(share.folder)))

    @sales.handler
    async def invoice(message: SendInvoice) -> None:
        handled.append(message)

    headers, body = of_dotnet(f"{HOUR}/{FILE}")
    headers[Header.MESSAGE_ID] = "1"

    async def failed() -> bool:
        return await backend.count(ERROR) == 1

    async def done() -> bool:
        return bool(handled)

    async with sales:
        await backend.insert(sales.address, json.dumps(headers), body)
        await eventually(failed)
        (row,) = await backend.rows(ERROR)
        assert f"no file {share.folder / HOUR / FILE}" in (row.headers[Header.EXCEPTION_MESSAGE] or "")
        assert (row.body, row.headers[DATA_BUS + f"{HOUR}/{FILE}"]) == (body, f"{HOUR}/{FILE}")

        keep(share, b'"AQID"')
        await backend.insert(sales.address, json.dumps(row.headers), row.body)
        await eventually(done)

    assert handled == [SendInvoice("42", b"\1\2\3")]
    assert len(attempts) == 3


@every(
    "changes, body, error",
    [
        pytest.param(
            {CONTENT_TYPE: "application/xml"}, None, "application/xml", id="values that are no JSON"
        ),
        pytest.param({Header.CONTENT_TYPE: "text/xml"}, b"<SendInvoice/>", "text/xml", id="a body in XML"),
        pytest.param({}, b"[1]", "no JSON object", id="a body that is no object"),
    ],
)
def test_what_cannot_be_read_says_so(
    share: FileShare, changes: Headers, body: bytes | None, error: str
) -> None:
    keep(share, b'"AQID"')
    headers, written = of_dotnet(f"{HOUR}/{FILE}")
    with pytest.raises(MessageDeserializationError, match=error):
        ClaimCheck(share).incoming({**headers, **changes}, body or written)


@every("text", [b"", b"AQID", b'"AQID","OrderId":"1"', b'"AQID"}'])
def test_a_file_that_is_no_value_does_not_reach_the_body(share: FileShare, text: bytes) -> None:
    keep(share, text)
    headers, body = of_dotnet(f"{HOUR}/{FILE}")
    with pytest.raises(MessageDeserializationError, match=f"kept under {HOUR}/{FILE}"):
        ClaimCheck(share).incoming(headers, body)


def test_a_body_that_is_no_json_is_not_claimed_from(share: FileShare) -> None:
    headers: Headers = {Header.ENCLOSED_MESSAGE_TYPES: INVOICE, Header.CONTENT_TYPE: "text/xml"}
    with pytest.raises(MessageSerializationError, match="text/xml"):
        ClaimCheck(share, {INVOICE: ["Scan"]}).outgoing(headers, b"<SendInvoice/>")


def test_what_cannot_work_is_refused_when_it_is_made(share: FileShare) -> None:
    store: Any = "a folder"
    with pytest.raises(ConfigurationError, match="FileShare"):
        ClaimCheck(store)
    with pytest.raises(ConfigurationError, match=r"\['Scan'\]"):
        ClaimCheck(share, {INVOICE: "Scan"})


# --------------------------------------------------------------------------------------------------------------- room


def of_many(key: str, times: int) -> tuple[Headers, bytes]:
    """Return a message with so many properties, all of them kept under one key."""
    body = {f"Scan{number}": {"Key": key, "HasValue": True} for number in range(times)}
    return {DATA_BUS + key: key, CONTENT_TYPE: JSON, Header.CONTENT_TYPE: JSON}, json.dumps(body).encode()


@every("measures", [True, False])
def test_a_value_is_read_once_and_none_that_would_fill_the_memory(*, measures: bool) -> None:
    """A message of 44 kB took its endpoint to 2.7 GiB."""

    class Memory:
        def __init__(self) -> None:
            self.value, self.read = json.dumps("x" * 100_000).encode(), 0
            if measures:
                self.size = lambda _key: len(self.value)

        def put(self, value: bytes) -> str:
            raise NotImplementedError

        def get(self, _key: str) -> bytes:
            self.read += 1
            return self.value

    memory = Memory()
    assert len(ClaimCheck(memory).incoming(*of_many("k", 5))) > 500_000
    assert memory.read == 1
    with pytest.raises(Unrecoverable, match="max_message_size"):
        ClaimCheck(memory).incoming(*of_many("k", 1_000))
    assert memory.read == (1 if measures else 2)


def test_files_are_measured_before_they_are_read(share: FileShare) -> None:
    (share.folder / HOUR).mkdir()
    with (share.folder / HOUR / FILE).open("wb") as file:
        file.truncate(2**40)  # of which the disk has nothing
    with pytest.raises(Unrecoverable, match="max_message_size"):
        ClaimCheck(share).incoming(*of_many(f"{HOUR}/{FILE}", 1))


# ------------------------------------------------------------------------------------------------------------ threads


async def test_a_store_is_read_in_a_thread_and_only_for_messages_with_claims() -> None:
    class Memory:
        def __init__(self) -> None:
            self.values, self.threads = dict[str, bytes](), list[threading.Thread]()

        def put(self, value: bytes) -> str:
            self.values["k"] = value
            return "k"

        def get(self, key: str) -> bytes:
            self.threads.append(threading.current_thread())
            return self.values[key]

    memory, seen = Memory(), list[dict[str, Any]]()
    sales = rowbus.Endpoint("Sales", database="host=nowhere")
    check = sales.use(ClaimCheck(memory, {INVOICE: ["Scan"]}))

    @sales.handler(INVOICE)
    async def invoice(message: dict[str, Any]) -> None:
        seen.append(message)

    outcome = await run_handlers(sales, {"Scan": [1, 2]}, type=INVOICE)

    assert outcome.error is None
    assert seen == [{"Scan": [1, 2]}]
    assert memory.threads
    assert threading.current_thread() not in memory.threads
    assert msgspec.json.decode(memory.values["k"]) == [1, 2]
    assert not check.blocks({Header.ENCLOSED_MESSAGE_TYPES: INVOICE, CONTENT_TYPE: JSON})
