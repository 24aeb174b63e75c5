"""The table in which a `ClaimCheck` keeps values by default: which one, for how long, under what keys; its keeper.

Invariants: a key says in which table its value is, and leads to no other; as of every `RecordKeeper`.
"""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError, Unrecoverable
from rowbus.messages.address import address_of
from rowbus.transport.claims.table import claimed_values
from rowbus.transport.queues.records.table import RecordKeeper, run_until_none

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.messages.address import Addresses, QueueAddress

MONTH: Final = timedelta(days=30)
_IN_TABLE: Final = "table:"
_KEY: Final = re.compile(
    r"table:(?P<table>.+):(?P<id>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})", re.DOTALL
)


class ClaimTable:
    """Keeps the values of a `ClaimCheck` in a table, written by the transaction that sends the message."""

    def __init__(self, name: str | QueueAddress = "ClaimedValues", *, keep_for: timedelta = MONTH) -> None:
        """Use a table, by default in the schema of the queues, which endpoints create as they do those. No I/O.

        A value is deleted `keep_for` after its message could first be received: after the send, or the time until
        which the message was delayed, and its time to be received, if it has one. Choose it longer than a message may
        wait in a queue and in the error queue. Raises ConfigurationError for no time at all.
        """
        if keep_for <= timedelta(0):
            raise ConfigurationError(f"keep_for is {keep_for}: values must be kept for longer than that.")
        self.name = name
        self.keep_for = keep_for

    def __repr__(self) -> str:
        """Show what was given."""
        return f"ClaimTable({self.name!r}, keep_for={self.keep_for!r})"

    def address(self, addresses: Addresses) -> QueueAddress:
        """Return where the table is; raises InvalidAddressError."""
        address = address_of(self.name, addresses)
        address.validate()
        return address


def key_of(table: QueueAddress, value_id: str) -> str:
    """Return the key of a value in a table."""
    return f"{_IN_TABLE}{table.canonical}:{value_id}"


def is_in_table(key: str) -> bool:
    """Say whether a key is that of a value in some table."""
    return key.startswith(_IN_TABLE)


def value_id_of(key: str, table: QueueAddress) -> str:
    """Return the id of a value in this table; raises Unrecoverable for the key of another table or another store."""
    found = _KEY.fullmatch(key)
    if found is None:
        raise Unrecoverable(
            f"The message keeps a value under {key}, which is no key of a table: it was sent with another store. Give "
            "this endpoint the same, as in ClaimCheck(rowbus.FileShare(…)), then have the message tried again: "
            "rowbus errors retry."
        )
    if found["table"] != table.canonical:
        raise Unrecoverable(
            f"The message keeps a value in the table {found['table']}, but values are read from {table} here. Give "
            "sender and receiver the same ClaimTable, then have the message tried again: rowbus errors retry."
        )
    return found["id"]


class ClaimKeeper(RecordKeeper):
    """Sweeps a table of claimed values, which several endpoints may share. For one event loop."""

    what = "old claimed values"
    logger = logging.getLogger("rowbus.claims")

    async def forget_on(self, session: AsyncSession) -> int:
        """Delete all values whose time is over; return how many."""
        return await run_until_none(session, claimed_values(self._address).sweep())
