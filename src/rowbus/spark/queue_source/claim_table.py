"""Claims: messages that a Spark query has moved out of a queue into a side table, to be delivered batch by batch.

A claim has a number, dense for each consumer of each queue. It is `held` under a lease, then `acked` (or `archived`),
or `returned`: its messages are back in the queue. The queue's own table keeps the shape NServiceBus gave it.

Invariant: a message is in the queue's table or in `rowbus_spark.claimed_message`, never in both and never in neither
before it is acknowledged: it moves by single statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.locks.names import claim_lock
from rowbus.database.statements import Query, Statement, affected, load, no_rows, scalar
from rowbus.messages.address import QueueAddress
from rowbus.messages.table_names import refuse_nul

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from rowbus.database.statements import Decode, Rows, T

_FOLDER = "spark/queue_source/sql/postgresql"
_ON_THE_QUEUE = frozenset({"find_last_seq", "take", "put_back", "peek", "count_blocks"})
_NOTHING: Mapping[str, str] = {}


class Terms(NamedTuple):
    """How many messages to take (None: all), up to which place in the queue (None: any), for how long; to be kept?"""

    most: int | None
    last: int | None
    lease: timedelta
    archive: bool


class Taken(NamedTuple):
    """What one look at the queue gave: messages that left it, and those of them worth delivering."""

    taken: int
    claimed: int


class Expired(NamedTuple):
    """A claim whose lease is over."""

    id: int
    address: QueueAddress
    consumer: str
    number: int


class ClaimTable:
    """Statements of one consumer of one queue; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress, consumer: str) -> None:
        """Bind the SQL files to the names; ConfigurationError if the consumer's holds NUL. No I/O."""
        refuse_nul("consumer", consumer)
        self.address = address
        self.consumer = consumer
        self._names = {"queue": address.canonical, "consumer": consumer}

    def _once(
        self,
        operation: str,
        decode: Decode[T],
        parameters: Mapping[str, object],
        literals: Mapping[str, object] = _NOTHING,
    ) -> Statement[T]:
        return Statement(_load(operation, self.address, literals), {**self._names, **parameters}, decode)

    def lock_consumer(self) -> Statement[bool]:
        """Try to be the consumer's one live query, until the session ends. Never waits."""
        name = claim_lock(self.address.canonical, self.consumer)
        return self._once("lock_consumer", scalar, {"lock_name": name})

    def register(self, acked: int) -> Statement[int]:
        """Make the consumer known, at a claim if it is new; answer up to which claim it has acknowledged."""
        return self._once("register", scalar, {"acked": acked})

    def find_last_seq(self) -> Statement[int | None]:
        """Ask for the place of the queue's newest message; None when it is empty."""
        return self._once("find_last_seq", scalar, {})

    def adopt(self, number: int, lease: timedelta) -> Statement[int | None]:
        """Take up a claim that is held, extending its lease; answer its size, None when there is none to take up."""
        return self._once("adopt", _one_or_none, {"number": number, "lease": lease})

    def forget_returned(self, number: int) -> Statement[int]:
        """Free the number of a claim that went back to the queue and that no batch was planned with."""
        return self._once("forget_returned", affected, {"number": number})

    def take(self, number: int, terms: Terms) -> Statement[Taken]:
        """Move the oldest messages nobody has in hand into a new claim.

        Passes over what others have locked, never waiting. Without messages worth delivering there is no claim.
        """
        parameters = {"number": number, **terms._asdict()}
        return self._once("take", lambda rows, _: Taken._make(rows[0]), parameters)

    def extend(self, lease: timedelta) -> Statement[int]:
        """Extend the leases of all claims held; answer how many those are."""
        return self._once("extend", affected, {"lease": lease})

    def ack(self, number: int) -> Statement[list[int]]:
        """End the claims up to one, and note that they are acknowledged; answer which of them had gone back.

        Does not answer the same claim twice. Waits for whoever is just putting one of them back.
        """
        return self._once("ack", _numbers, {"number": number})

    def prune(self, number: int) -> Statement[None]:
        """Delete the claims before one that have ended, with their messages, but for what is archived."""
        return self._once("prune", no_rows, {"number": number})

    def read(self, number: int, after: int, upto: int) -> Query:
        """Return the query, without parameters, that reads a slice of a claim by the messages' positions in it."""
        literals = {**self._names, "number": number, "after": after, "upto": upto}
        return _load("read", self.address, literals)


def prepare_reading() -> Query:
    """Return the query that prepares a session for those that follow."""
    return load(f"{_FOLDER}/prepare_reading.sql", failing="Could not read messages", prepare=False)


def peek(address: QueueAddress, first_block: int, end_block: int) -> Query:
    """Return the query, without parameters, that looks at the messages in some blocks of a queue's table."""
    return _load("peek", address, {"first": f"({first_block},0)", "end": f"({end_block},0)"})


def count_blocks(address: QueueAddress) -> Statement[int]:
    """Ask how many blocks a queue's table has; raises QueueNotFoundError."""
    return Statement(_load("count_blocks", address), {"name": address.canonical}, scalar)


def find_expired(but: Sequence[int], own: ClaimTable | None) -> Statement[Expired | None]:
    """Find and lock the oldest claim whose lease is over, leaving out some by id and those of one's own."""

    def decode(rows: Rows, _count: int) -> Expired | None:
        if not rows:
            return None
        claim_id, queue, consumer, number = rows[0]
        return Expired(claim_id, QueueAddress.parse(queue), consumer, number)

    query = load(f"{_FOLDER}/find_expired.sql", failing="Could not look for expired claims", prepare=False)
    names = {"queue": own.address.canonical, "consumer": own.consumer} if own else {}
    return Statement(query, {"queue": None, "consumer": None, "but": list(but), **names}, decode)


def put_back(claim: Expired) -> Statement[int]:
    """Move the messages of a claim, which the caller has locked, back to their places; answer how many."""
    address = claim.address
    parameters = {"claim_id": claim.id, "name": address.canonical, "channel": address.channel}
    return Statement(_load("put_back", address), parameters, scalar)


def _load(operation: str, address: QueueAddress, literals: Mapping[str, object] = _NOTHING) -> Query:
    return load(
        f"{_FOLDER}/{operation}.sql",
        identifiers={"schema": address.schema, "queue": address.table},
        literals=literals,
        failing=f"Spark's claims on {address}: the database refused to {operation.replace('_', ' ')}",
        queue=str(address) if operation in _ON_THE_QUEUE else None,
        prepare=False,
    )


def _one_or_none(rows: Rows, _count: int) -> int | None:
    return rows[0][0] if rows else None


def _numbers(rows: Rows, _count: int) -> list[int]:
    return [number for (number,) in rows]
