"""Scenes of the golden rows' C#, done with Rowbus, and every row that was written meanwhile.

Invariant: rows are recorded as the golden ones were, by a trigger that copies each as it is inserted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import rowbus
from rowbus.messages.headers import Header, parse_enclosed_types
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints
from tests.conformance.transport import eventually
from tests.fixtures.dotnet_rows import rows

if TYPE_CHECKING:
    from tests.conformance.backend import Backend

SALES, WEB, BILLING, AUDIT = "Sales", "Web", "Billing", "audit"
SOON = timedelta(milliseconds=50)
RETRIES = rowbus.Recoverability(immediate=0, delayed=2, increase=SOON)


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    Id: str = "1"


@rowbus.command("Shop.CancelOrder")
@dataclass
class CancelOrder:
    Id: str = "1"


@rowbus.message("Shop.OrderAccepted")
@dataclass
class OrderAccepted:
    Id: str = "1"


@rowbus.message("Shop.CardCharged")
@dataclass
class CardCharged:
    Id: str = "1"


@rowbus.command("Shop.PriceQuote")
@dataclass
class PriceQuote:
    Id: str = "1"


@rowbus.command("Shop.LongOffer")
@dataclass
class LongOffer:
    Id: str = "1"


@rowbus.event("Shop.OrderShipped", parents=("Shop.IOrderEvent", "Shop.OrderEvent"))
@dataclass
class OrderShipped:
    Id: str = "1"


class Written(NamedTuple):
    """A row: its table, the first of its types ("" for none), and its headers."""

    table: str
    type: str
    headers: dict[str, str | None]


class Scene:
    """Endpoints, the queues that they write to, and what was written."""

    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoints = endpoints
        self.backend: Backend = endpoints.backend

    def endpoint(self, name: str, **settings: Any) -> rowbus.Endpoint:  # noqa: ANN401 - settings of an endpoint
        chosen = {"recoverability": NO_RETRIES, "error_queue": ERROR, **settings}
        return self.endpoints.make(name, **chosen)

    async def create(self, *queues: str) -> None:
        for queue in queues:
            await self.backend.create_queue(queue)

    async def record(self, *tables: str) -> None:
        """Copy each row of these tables from now on."""
        await self.backend.execute("create table recorded (n serial, at text, headers text)")
        await self.backend.execute(
            "create function record() returns trigger language plpgsql as $$ begin"
            " insert into public.recorded (at, headers) values (tg_table_name, new.headers); return null; end $$"
        )
        for table in tables:
            await self.backend.execute(
                f'create trigger record after insert on "{table}" for each row execute function record()'
            )

    async def put(self, queue: str, scenario: str, order: int) -> None:
        """Put a golden row of .NET's into a queue of ours."""
        row = rows(scenario)[order - 1]
        await self.backend.insert(queue, row.headers_text, row.body)

    async def written(self) -> list[Written]:
        texts = await self.backend.values(
            "select json_build_array(at, headers)::text from recorded order by n"
        )
        found = []
        for text in texts:
            table, headers_text = json.loads(text)
            headers = json.loads(headers_text)
            types = parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))
            found.append(Written(table, types[0] if types else "", headers))
        return found

    async def wait_for(self, *counts: tuple[str, int]) -> list[Written]:
        """Wait until so many rows were written into each table, and return all."""

        async def enough() -> bool:
            tables = [row.table for row in await self.written()]
            return all(tables.count(table) >= count for table, count in counts)

        await eventually(enough)
        return await self.written()


def one(written: list[Written], table: str, type: str = "", *, last: bool = False) -> dict[str, str | None]:
    """Return the headers of a row that was written."""
    found = [row.headers for row in written if row.table == table and row.type == type]
    return found[-1 if last else 0]
