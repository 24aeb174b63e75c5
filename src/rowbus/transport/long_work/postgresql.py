"""The table of an endpoint's running work on PostgreSQL.

Invariant: what a process does to a row it does under the row's epoch.
"""

from __future__ import annotations

import json
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, each, no_rows
from rowbus.errors.strangers import writable
from rowbus.messages.headers import Header
from rowbus.messages.message import read_headers
from rowbus.transport.long_work import table
from rowbus.transport.long_work.table import Cancelling, Work, WorkStatus
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from rowbus.database.statements import Query, Row, Rows
    from rowbus.messages.address import QueueAddress


class LongWorkTable(table.LongWorkTable, RecordTable):
    """Statements on one endpoint's table."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._put = self._load("put", "Failed to move a message to", prepare=True)
        self._take = self._load("take", "Failed to take work from", prepare=True)
        self._renew = self._load("renew", "Failed to renew leases in", prepare=True)
        self._hold = self._load("hold", "Failed to hold work in", prepare=True)
        self._endpoint = address.table.removesuffix(f".{table.RUNNING}")
        self._remove = self._load("remove", "Failed to end work in", prepare=True)
        self._finish = self._load("finish", "Failed to end work in", prepare=True)

    def put(self, work: Work) -> Statement[None]:
        """Put a message here; see the base."""
        parameters = {"id": work.id, "queue": work.queue, "headers": work.headers, "body": work.body}
        return Statement(self._put, parameters, no_rows)

    def take(self, count: int, process: str, lease: timedelta) -> Statement[list[Work]]:
        """Take rows; see the base."""
        return Statement(self._take, {"count": count, "process": process, "lease": lease}, _taken)

    def renew(self, work: Sequence[Work], lease: timedelta) -> Statement[dict[str, Cancelling | None]]:
        """Hold rows for longer; see the base."""
        return Statement(self._renew, {**_keys(work), "lease": lease}, _renewed)

    def hold(self, work: Work, lease: timedelta) -> Statement[bool]:
        """Lock a row; see the base."""
        return Statement(self._hold, {**_key(work), "lease": lease}, self._is_own)

    def fail(self, work: Work) -> Statement[bool]:
        """Count a failed attempt; see the base."""
        return Statement(self._load("fail", "Failed to count a failure in"), _key(work), self._is_own)

    def release(self, work: Sequence[Work]) -> Statement[None]:
        """Let go of rows; see the base."""
        return Statement(self._load("release", "Failed to hand work back in"), _keys(work), no_rows)

    def remove(self, work: Work) -> Statement[None]:
        """Delete a row; see the base."""
        return Statement(self._remove, {"id": work.id}, no_rows)

    def finish(self, work: Sequence[Work]) -> Statement[set[str]]:
        """Delete rows that are held; see the base."""
        return Statement(self._finish, _keys(work), _ids)

    def progress(self, work: Work, fraction: float, note: str) -> Statement[bool]:
        """Note how far work is; see the base."""
        query = self._load("progress", "Failed to note progress in")
        return Statement(query, {**_key(work), "fraction": fraction, "note": note}, self._is_own)

    def list(self) -> Statement[list[WorkStatus]]:
        """Return running work; see the base."""
        return Statement(self._list(), {"quoted_id": None}, partial(_statuses, self._endpoint))

    def status(self, message_id: str) -> Statement[WorkStatus | None]:
        """Return how a message stands; see the base."""
        return Statement(
            self._list(), {"quoted_id": json.dumps(message_id)}, partial(_status, self._endpoint)
        )

    def cancel(self, message_id: str, cancelling: Cancelling) -> Statement[Sequence[str]]:
        """Ask for an end; see the base."""
        parameters = {
            "quoted_id": json.dumps(message_id),
            "by": cancelling.by,
            "why": writable(cancelling.why),
        }
        return Statement(self._load("cancel", "Failed to cancel work in"), parameters, each(itemgetter(0)))

    def _list(self) -> Query:
        return self._load("list", "Failed to look for running work in")

    def _is_own(self, rows: Rows, count: int) -> bool:
        return self._counted(rows, count) > 0


def _key(work: Work) -> Mapping[str, object]:
    return {"id": work.id, "epoch": work.epoch}


def _keys(work: Sequence[Work]) -> Mapping[str, object]:
    return {"ids": [each.id for each in work], "epochs": [each.epoch for each in work]}


def _taken(rows: Rows, _count: int) -> list[Work]:
    return [Work(str(row[0]), *row[1:8]) for row in sorted(rows, key=itemgetter(8))]


def _ids(rows: Rows, _count: int) -> set[str]:
    return {str(key) for (key,) in rows}


def _renewed(rows: Rows, _count: int) -> dict[str, Cancelling | None]:
    return {str(key): None if by is None else Cancelling(by, why or "") for key, by, why in rows}


def _statuses(endpoint: str, rows: Rows, _count: int) -> list[WorkStatus]:
    return [_status_of(endpoint, row) for row in rows]


def _status_of(endpoint: str, row: Row) -> WorkStatus:
    headers = read_headers(row[0]) or {}
    kinds = headers.get(Header.ENCLOSED_MESSAGE_TYPES) or ""
    return WorkStatus(endpoint, headers.get(Header.MESSAGE_ID) or row[1], kinds, *row[2:])


def _status(endpoint: str, rows: Rows, count: int) -> WorkStatus | None:
    return next(iter(_statuses(endpoint, rows, count)), None)
