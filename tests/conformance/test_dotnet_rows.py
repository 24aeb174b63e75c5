"""Every row that real .NET endpoints wrote: handled with its values, consumed, or refused with the reason.

The rows are those of tests/golden/dotnet, of queues and of delayed tables. Their typed values are compared in
tests/messages/bodies; here a handler takes each as a dictionary, and JSON is compared with what Python's own reader
makes of it.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any, Final, NamedTuple

import pytest

import rowbus
from rowbus.messages.headers import Header, parse_enclosed_types
from tests.conformance.backend import StoredRow
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints
from tests.conformance.transport import eventually
from tests.fixtures.dotnet_rows import SCENARIOS, Row, rows

pytestmark = pytest.mark.only(
    "PostgreSQL", reason="the rows are of PostgreSQL's transport, addresses included"
)

HANDLED: Final = "handled"
CONSUMED: Final = "consumed"
REFUSED: Final[dict[str, str]] = {
    "null body": "The body is NULL",
    "no types": "does not say what it is",
    "headers": "Not the headers of a message",
    "body": "The body is not a ",
    "handler": "No handler for",
}
NO_JSON_OF_OURS: Final = {"comment", "trailing-comma", "json-null"}
"""Bodies by hand that are no JSON object, by their message ids; System.Text.Json refuses them as well."""

RETURNED: Final = "ServiceControl.Retry.AcknowledgementQueue"


class Case(NamedTuple):
    """A row, and what may become of it."""

    row: Row
    outcomes: set[str]


def outcomes_of(row: Row) -> set[str]:  # noqa: PLR0911 - a row has one of many reasons
    """Say what may become of a row in an endpoint that has a handler for all of .NET's types."""
    if row.body is None:
        return {REFUSED["null body"], CONSUMED}  # SQL Server's transport takes NULL for an empty body
    headers = row.headers
    if headers is None or any(not isinstance(value, str | None) for value in headers.values()):
        return {REFUSED["no types"] if row.headers_text == "" else REFUSED["headers"]}
    if (headers.get(Header.CONTROL_MESSAGE) or "").lower() == "true" or not row.body:
        return {CONSUMED}
    if not parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES)):
        return {REFUSED["no types"]}
    if row.content_type == "text/xml" and row.body.startswith(b"{"):  # by hand: JSON that says it is XML
        return {REFUSED["body"]}
    if headers.get(Header.MESSAGE_ID) in NO_JSON_OF_OURS:
        return {REFUSED["body"]}
    return {HANDLED}


def body_of(row: Row) -> object:
    """Return what a body holds, by Python's own reader; None for XML, which has tests of its own."""
    if row.content_type == "text/xml" and not (row.body or b"").lstrip().startswith(b"{"):
        return None
    return json.loads((row.body or b"").decode("utf-8-sig"))


def types_in(cases: list[Case]) -> set[str]:
    return {
        name
        for case in cases
        for name in parse_enclosed_types((case.row.headers or {}).get(Header.ENCLOSED_MESSAGE_TYPES))
    }


class Reader:
    """An endpoint that takes all that .NET wrote, JSON and XML, one scenario after the other."""

    def __init__(self, endpoints: Endpoints, types: set[str]) -> None:
        self.backend = endpoints.backend
        self.handled: dict[bytes, list[tuple[dict[str, str | None], object]]] = {}
        self.endpoint = rowbus.Endpoint(
            "Reader",
            database=endpoints.backend.dsn,
            settings=rowbus.EndpointSettings(error_queue=ERROR, purge_on_startup=False),
            recoverability=NO_RETRIES,
            serializers=(rowbus.Json(), rowbus.Xml()),
        )

        @self.endpoint.handler(*sorted(types or {"Shop.Nothing"}), subscribe=False)
        async def take(message: dict[str, Any], context: rowbus.Context) -> None:
            self.handled.setdefault(context.body, []).append((dict(context.headers), message))

    async def reads(self, cases: list[Case]) -> list[StoredRow]:
        """Have a scenario's rows read; return what is in the error queue, which is empty afterwards."""
        self.handled.clear()
        for case in cases:
            await self.backend.insert(self.endpoint.address, _text_of(case.row), case.row.body)

        async def done() -> bool:
            return await self.backend.count(self.endpoint.address) == 0

        await eventually(done)
        failed = await self.backend.rows(ERROR)
        await self.backend.execute(f"delete from {ERROR}")
        return failed


def _text_of(row: Row) -> str:
    """Return a row's header text, without where a mover is to bring it: it is here."""
    if row.headers is None or not {Header.FORWARD_DESTINATION, RETURNED} & row.headers.keys():
        return row.headers_text
    left_out = {Header.FORWARD_DESTINATION, RETURNED}
    return json.dumps({name: value for name, value in row.headers.items() if name not in left_out})


async def test_every_row_is_handled_consumed_or_refused_with_its_reason(endpoints: Endpoints) -> None:
    scenarios = {name: [Case(row, outcomes_of(row)) for row in rows(name)] for name in SCENARIOS}
    reader = Reader(endpoints, types_in([case for cases in scenarios.values() for case in cases]))
    wrong = []

    async with reader.endpoint:
        for name, cases in scenarios.items():
            failed = await reader.reads(cases)
            try:
                check(cases, reader, failed)
            except AssertionError as error:
                wrong.append(f"{name}: {error}")

    assert not wrong, "\n".join(wrong)


def check(cases: list[Case], reader: Reader, refused: list[StoredRow]) -> None:
    """Compare what became of a scenario's rows with what was to become of them."""
    reasons = Counter[str]()
    for failed in refused:
        text = str(failed.headers[Header.EXCEPTION_MESSAGE])
        reasons[next((reason for reason in REFUSED.values() if reason in text), text)] += 1
    expected = Counter(
        outcome for case in cases for outcome in case.outcomes - {HANDLED} if len(case.outcomes) == 1
    )
    expected.pop(CONSUMED, None)
    unsure = sum(len(case.outcomes) > 1 for case in cases)
    assert sum((reasons - expected).values()) <= unsure
    assert expected - reasons == Counter()
    for case in cases:
        if case.outcomes == {HANDLED}:
            found = reader.handled.get(case.row.body or b"", [])
            assert all(message == (body_of(case.row) or message) for _, message in found)
            assert any(_equal(headers, case.row) for headers, _ in found)


def _equal(headers: dict[str, str | None], row: Row) -> bool:
    """Say whether a handler's headers are a row's; one without a message id has its row's."""
    theirs = {
        name: value
        for name, value in (row.headers or {}).items()
        if name not in {Header.FORWARD_DESTINATION, RETURNED}
    }
    if not theirs.get(Header.MESSAGE_ID):
        theirs[Header.MESSAGE_ID] = headers[Header.MESSAGE_ID]
        assert str(uuid.UUID(headers[Header.MESSAGE_ID])) == headers[Header.MESSAGE_ID]
    return headers == theirs


def test_no_row_is_left_out() -> None:
    assert sum(len(rows(name)) for name in SCENARIOS) > 250
