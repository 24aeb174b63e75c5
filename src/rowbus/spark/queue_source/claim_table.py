"""The table of claims: messages that a Spark query has moved out of a queue, to be delivered batch by batch.

A claim has a number, consecutive for each consumer of each queue. It is `held` under a lease, then `acked` (or
`archived`), or `returned`: its messages are back in the queue. The queue's own table keeps the shape of NServiceBus.

Invariant: until it is acknowledged, a message is either in the queue's table or in `rowbus_spark.claimed_message`,
never in both and never in neither: single statements move it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.locks import claim_lock
from rowbus.database.statements import Query, Statement, affected, load, no_rows, scalar
from rowbus.messages.address import QueueAddress, refuse_nul
from rowbus.spark.filters import NO_CONDITIONS
from rowbus.spark.queue_source.options import literals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from rowbus.database.statements import Decode, Rows, T
    from rowbus.spark.filters import Conditions

_FOLDER = "spark/queue_source/sql/postgresql"
_ON_THE_QUEUE = frozenset({"find_last_seq", "take", "put_back", "peek", "count_blocks"})
_NOTHING: Mapping[str, str] = {}


class Terms(NamedTuple):
    """Limits of a claim: messages (None: all), last `seq` (None: any), lease, and whether to archive it."""

    most: int | None
    last: int | None
    lease: timedelta
    archive: bool


class ClaimCounts(NamedTuple):
    """Counts of one claim: messages taken from the queue, and those of them that had not expired."""

    taken: int
    claimed: int


class ExpiredClaim(NamedTuple):
    """A claim whose lease ended."""

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
        """Try to lock the consumer until the session ends. Never waits."""
        name = claim_lock(self.address.canonical, self.consumer)
        return self._once("lock_consumer", scalar, {"lock_name": name})

    def register(self, acked: int) -> Statement[int]:
        """Register the consumer, a new one at this claim; return the last claim that it has acknowledged."""
        return self._once("register", scalar, {"acked": acked})

    def find_last_seq(self) -> Statement[int | None]:
        """Return the `seq` of the queue's newest message; None when the queue is empty."""
        return self._once("find_last_seq", scalar, {})

    def adopt(self, number: int, lease: timedelta) -> Statement[int | None]:
        """Extend the lease of a held claim; return its size, None when there is no such claim."""
        return self._once("adopt", _one_or_none, {"number": number, "lease": lease})

    def forget_returned(self, number: int) -> Statement[int]:
        """Free the number of a claim that returned to the queue before a batch was planned with it."""
        return self._once("forget_returned", affected, {"number": number})

    def take(self, number: int, terms: Terms) -> Statement[ClaimCounts]:
        """Move the oldest unlocked messages into a new claim.

        Skips locked messages, never waits. If all messages had expired, there is no claim.
        """
        parameters = {"number": number, **terms._asdict()}
        return self._once("take", lambda rows, _: ClaimCounts._make(rows[0]), parameters)

    def extend(self, lease: timedelta) -> Statement[int]:
        """Extend the leases of all held claims; return how many."""
        return self._once("extend", affected, {"lease": lease})

    def ack(self, number: int) -> Statement[list[int]]:
        """Acknowledge and end the claims up to one; return those of them that had returned to the queue.

        Returns each such claim once. Waits for sessions that return one of them.
        """
        return self._once("ack", _numbers, {"number": number})

    def prune(self, number: int) -> Statement[None]:
        """Delete ended claims before one, with their messages, except archived ones."""
        return self._once("prune", no_rows, {"number": number})

    def read(self, number: int, after: int, upto: int) -> Query:
        """Return the query, without parameters, that reads a slice of a claim by position."""
        literals = {**self._names, "number": number, "after": after, "upto": upto}
        return _load("read", self.address, literals)


def prepare_reading() -> Query:
    """Return the query that prepares a session for reading."""
    return load(f"{_FOLDER}/prepare_reading.sql", failing="Could not read messages", prepare=False)


def peek(address: QueueAddress, first_block: int, end_block: int, where: Conditions = NO_CONDITIONS) -> Query:
    """Return the query, without parameters, that reads the messages in some blocks of a queue's table.

    Conditions on what headers hold are not applied to all messages: whoever reads them does it again.
    """
    blocks = {"first": f"({first_block},0)", "end": f"({end_block},0)"}
    return _load("peek", address, {**blocks, **literals(where)})


def count_blocks(address: QueueAddress) -> Statement[int]:
    """Return the number of blocks of a queue's table; raises QueueNotFoundError."""
    return Statement(_load("count_blocks", address), {"name": address.canonical}, scalar)


def find_expired(but: Sequence[int], own: ClaimTable | None) -> Statement[ExpiredClaim | None]:
    """Lock and return the oldest claim whose lease ended, except some ids and those of `own`."""

    def decode(rows: Rows, _count: int) -> ExpiredClaim | None:
        if not rows:
            return None
        claim_id, queue, consumer, number = rows[0]
        return ExpiredClaim(claim_id, QueueAddress.parse(queue), consumer, number)

    query = load(f"{_FOLDER}/find_expired.sql", failing="Could not look for expired claims", prepare=False)
    names = {"queue": own.address.canonical, "consumer": own.consumer} if own else {}
    return Statement(query, {"queue": None, "consumer": None, "but": list(but), **names}, decode)


def put_back(claim: ExpiredClaim) -> Statement[int]:
    """Move the messages of a claim, which the caller has locked, back to their queue; return how many."""
    address = claim.address
    parameters = {"claim_id": claim.id, "channel": address.channel}
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
