"""The table of the values that unique messages for a queue have claimed, on PostgreSQL.

Invariant: as in `table.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rowbus.database.statements import Query, Statement, no_rows
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import encode_copied_headers
from rowbus.messages.outgoing import Claim
from rowbus.transport.delayed.postgresql import due_parameters
from rowbus.transport.queues.records.keys import key_of
from rowbus.transport.queues.records.postgresql import RecordTable
from rowbus.transport.uniqueness import table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.uniqueness.table import UniqueSend


class UniqueTable(table.UniqueTable, RecordTable):
    """Statements on one queue's table."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table, its queue, and the table of that queue's delayed messages. No I/O."""
        super().__init__(address)
        self._queue = replace(address, table=address.table.removesuffix(f".{table.UNIQUE}"))
        self._delayed = self._queue.satellite(DEFAULT_DELAYED_SUFFIX)
        self._channel, self._movers = self._queue.channel, self._delayed.channel
        self._send = self._on("send")
        self._store = self._on("store")

    def send(self, unique: UniqueSend, *, notify: bool) -> Statement[Claim | None]:
        """Claim a message's value and send the message; see the base."""
        send, uniqueness, row_id = unique
        parameters: dict[str, object] = {
            "value": key_of(uniqueness.value),
            "row_id": row_id,
            "message_id": send.message.message_id,
            "within": uniqueness.within,
            "body": send.message.body,
            "notify": notify,
        }
        decode = partial(_earlier, row_id)
        if isinstance(send, DelayedSend):
            headers = encode_copied_headers(send.message.bound_for(self._queue).headers)
            parameters |= {"headers": headers, "channel": self._movers, **due_parameters(send.due)}
            return Statement(self._store, parameters, decode)
        parameters |= {
            "headers": encode_copied_headers(send.message.headers),
            "channel": self._channel,
            "time_to_be_received": send.message.time_to_be_received,
        }
        return Statement(self._send, parameters, decode)

    def find(self, row_id: str) -> Statement[bool]:
        """Lock a message in the queue; see the base."""
        return Statement(self._on("find"), {"row_id": row_id, "channel": self._channel}, _has_rows)

    def find_delayed(self, row_id: str) -> Statement[bool]:
        """Lock a delayed message; see the base."""
        return Statement(self._on("find_delayed"), {"row_id": row_id}, _has_rows)

    def remove(self, row_id: str, *, is_due: bool) -> Statement[int]:
        """Delete a message that was found; see the base."""
        place = self._queue if is_due else self._delayed
        return Statement(self._on("remove", place=place.table), {"row_id": row_id}, self._counted)

    def postpone(self, row_id: str, due: timedelta | datetime) -> Statement[int]:
        """Have a delayed message wait longer; see the base."""
        return Statement(self._on("postpone"), {"row_id": row_id, **due_parameters(due)}, self._counted)

    def release(self, value: str) -> Statement[int]:
        """Forget the claim on a value; see the base."""
        return Statement(self._on("release"), {"value": key_of(value)}, self._counted)

    def lock_some(self, after: str, most: int) -> Statement[list[str]]:
        """Lock some claims; see the base."""
        return Statement(self._on("lock_some"), {"after": after, "batch_size": most}, _values)

    def sweep(self, values: Sequence[str]) -> Statement[int]:
        """Forget those of some claims that are free; see the base."""
        return Statement(self._on("sweep"), {"locked_values": list(values)}, self._counted)

    def grant(self, role: str) -> Statement[None]:
        """Let a role send unique messages to its own queue, and forget values that are free."""
        return self.grant_keep(role)

    def grant_keep(self, role: str) -> Statement[None]:
        """Let a role send unique messages; see the base."""
        query = self._load("grant_keep", f"Failed to grant {role} privileges on", role=role, **self._names())
        return Statement(query, {}, no_rows)

    def _on(self, operation: str, **names: str) -> Query:
        query = self._load(
            operation, "Failed to send a unique message by", prepare=not names, **self._names(), **names
        )
        return query._replace(queue=str(self._queue))

    def _names(self) -> dict[str, Any]:
        return {"queue": self._queue.table, "delayed": self._delayed.table}


def _earlier(row_id: str, rows: Rows, _count: int) -> Claim | None:
    claim = Claim._make(rows[0][:5])
    return None if claim.row_id == row_id else claim


def _has_rows(rows: Rows, _count: int) -> bool:
    return bool(rows)


def _values(rows: Rows, _count: int) -> list[str]:
    return [value for (value,) in rows]
