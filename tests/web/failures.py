"""Failed messages for tests of the page: rows of an error queue, written as endpoints write them."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any

import psycopg

from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Mapping

ERROR, SALES, BILLING = '"public"."error"', '"public"."Sales"', '"public"."Billing"'


class ErrorQueue:
    """An error queue, its neighbours, and a connection that looks into them."""

    def __init__(self, dsn: str) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)

    def add(
        self,
        message_id: str = "message-1",
        *,
        queue: str | None = SALES,
        exception: str = "shop.OutOfStockError",
        reason: str = "no tents",
        type: str = "Shop.PlaceOrder",
        hour: int = 12,
        body: bytes | None = b"{}",
        to: str = "error",
        more: Mapping[str, str] | None = None,
    ) -> str:
        """Add a failed message and return its row's id."""
        headers = {
            Header.MESSAGE_ID: message_id,
            Header.ENCLOSED_MESSAGE_TYPES: type,
            Header.EXCEPTION_TYPE: exception,
            Header.EXCEPTION_MESSAGE: reason,
            Header.EXCEPTION_STACK_TRACE: f"   at shop.place_order() in /srv/shop.py:line 8 {reason}",
            Header.EXCEPTION_TRACEBACK: f"Traceback (most recent call last):\n{reason}",
            Header.TIME_OF_FAILURE: f"2026-05-01 {hour:02d}:00:00:000000 Z",
            Header.TIME_SENT: f"2026-05-01 {hour:02d}:00:00:000000 Z",
            Header.PROCESSING_ENDPOINT: "Sales",
            Header.ORIGINATING_ENDPOINT: "Website",
            **({Header.FAILED_QUEUE: queue} if queue else {}),
            **(more or {}),
        }
        return self.add_row(json.dumps(headers), body, to)

    def add_row(self, headers: str, body: bytes | None = b"{}", to: str = "error") -> str:
        """Add any row and return its id."""
        row_id = str(uuid.uuid4())
        self.connection.execute(
            f'insert into "{to}" (id, headers, body) values (%s, %s, %s)', (row_id, headers, body)
        )
        return row_id

    def add_acknowledgement(self) -> None:
        """Add what an endpoint tells ServiceControl."""
        self.add_row(json.dumps({Header.CONTROL_MESSAGE: "True", Header.RETRY_SUCCESSFUL: "yes"}), b"")

    def headers(self, queue: str = "error") -> list[dict[str, str]]:
        """Return the headers of what a queue holds, in order."""
        return [
            json.loads(headers)
            for (headers,) in self.connection.execute(f'select headers from "{queue}" order by seq')
        ]

    def ids(self, queue: str = "error") -> list[str]:
        """Return the ids of the messages that a queue holds, in order."""
        return [headers.get(Header.MESSAGE_ID, "") for headers in self.headers(queue)]

    def operations(self) -> list[tuple[Any, ...]]:
        """Return what the log of operations has: who, what, where, how many meant and done, how it ended."""
        return self.connection.execute(
            'select person, action, queue, meant, done, stayed, state from "Rowbus.Operations" order by began'
        ).fetchall()


def text_of(page: str) -> str:
    """Return a page without its markup, roughly."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
