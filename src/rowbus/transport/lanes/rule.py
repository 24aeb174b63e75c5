"""The lanes of an endpoint as values: its queues beside its own, who serves which, and which a message goes to.

A lane is one more queue of the endpoint, `Sales#3` or `Sales#urgent`, of the shape that all queues have. A trigger on
the endpoint's own queue puts what names a lane there; what names none stays (docs/how-to/order-priority-fairness.md).

Each process asks who there is, and takes the lanes that `assign` gives it; so all come to the same without talking to
each other, and each lane moves once when a process comes or goes.

Invariants: all is pure. Which lane a message goes to the trigger knows alone: `sql/postgresql/create_function.sql`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header
from rowbus.running.setting_types import require_type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from rowbus.messages.address import QueueAddress

Q = TypeVar("Q")  # a queue, and what is known of it

MARK: Final = "#"
"""Stands between the name of the queue and that of the lane."""
MOST: Final = 256
"""Lanes of one endpoint."""
OWN_SHARE: Final = 4
"""The number of turns of the endpoint's own queue, where a lane of weight 1 has one."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,20}")


class LaneKind(Enum):
    """The rule that chooses the lane of a message."""

    KEY = "key"
    """Its key; the messages of a key are handled in the order of their commits."""
    SHARE = "share"
    """A header, such as that of a tenant; lanes take turns."""
    NAME = "name"
    """The lane that it names, as its priority."""


@dataclass(frozen=True)
class Lanes:
    """The lanes of an endpoint: made by `by_key`, `by_priority` and `fair`, for `Endpoint(lanes=…)`."""

    kind: LaneKind
    header: str
    """Where a message says what chooses its lane."""
    names: tuple[str, ...]
    weights: tuple[int, ...]
    """The number of turns of each lane while all have messages."""

    @property
    def is_ordered(self) -> bool:
        """Whether a lane's messages are handled one after the other, by one process at a time."""
        return self.kind is LaneKind.KEY

    @property
    def arguments(self) -> tuple[str, str, str]:
        """The trigger's arguments."""
        lanes = ",".join(self.names) if self.kind is LaneKind.NAME else str(len(self.names))
        return self.kind.value, self.header, lanes

    def addresses(self, queue: QueueAddress) -> list[QueueAddress]:
        """Return the queues of the lanes."""
        return [replace(queue, table=f"{queue.table}{MARK}{name}") for name in self.names]

    def __str__(self) -> str:
        if self.kind is LaneKind.NAME:
            return f"the lanes {', '.join(self.names)} by priority"
        return f"{len(self.names)} lanes by {'key' if self.is_ordered else self.header}"


class Holder(NamedTuple):
    """The session that has a lane, by its number on the server, and the process of the endpoint that it is of."""

    pid: int
    process: int | None


class Survey(NamedTuple):
    """The processes that work on the lanes, in the order of their numbers, and who has which lane."""

    members: tuple[int, ...]
    holders: Mapping[int, Holder]


class Assignment(NamedTuple):
    """The lanes of one process, and the sessions that keep them from it though their process answers no more."""

    lanes: frozenset[int]
    stranded: tuple[int, ...]


def own_queues(addresses: Collection[QueueAddress]) -> dict[QueueAddress, QueueAddress]:
    """Return of each queue that is a lane, or has lanes, the endpoint's own queue."""
    known = set(addresses)
    lanes: dict[QueueAddress, QueueAddress] = {}
    for address in addresses:
        name, mark, _ = address.table.rpartition(MARK)
        if name and mark and (own := replace(address, table=name)) in known:
            lanes |= {address: own, own: own}
    return lanes


def with_lanes(queues: Sequence[Q], address_of: Callable[[Q], QueueAddress]) -> list[list[Q]]:
    """Return the queues that are no lanes, in their order, each with its lanes behind it."""
    own = own_queues([address_of(queue) for queue in queues])
    together: dict[QueueAddress, list[Q]] = {}
    for queue in queues:
        address = address_of(queue)
        together.setdefault(own.get(address, address), []).append(queue)
    for first, group in together.items():
        group.sort(key=lambda queue: address_of(queue) != first)
    return list(together.values())


def lane_name(address: QueueAddress, own: QueueAddress) -> str:
    """Return what a lane is called beside the endpoint's own queue; that itself has no name."""
    return "" if address == own else address.table.removeprefix(f"{own.table}{MARK}")


def read_lanes(kind: str, header: str, lanes: str) -> Lanes:
    """Return the lanes of a trigger with these arguments, which say nothing of weights."""
    names = tuple(lanes.split(",")) if kind == LaneKind.NAME.value else _numbers(int(lanes))
    return Lanes(LaneKind(kind), header, names, (1,) * len(names))


def by_key(lanes: int = 16) -> Lanes:
    """Have the messages of a key (`send(…, key=…)`) handled in the order of their commits, in all processes together.

    So many lanes share the keys; one process at a time has a lane, and works on it one message after the other. A
    message that is to be retried after a delay holds up its own key. Raises ConfigurationError.
    """
    return Lanes(LaneKind.KEY, Header.KEY, _numbers(lanes), (1,) * lanes)


def fair(*, by: str = Header.KEY, lanes: int = 64) -> Lanes:
    """Have lanes take turns, to which messages belong by a header, such as that of a tenant: none delays another's.

    `by` names the header; by default it is the key of `send(…, key=…)`. Raises ConfigurationError.
    """
    require_type("by", by, str, "the name of a header, such as 'tenant'")
    if not by or not by.isascii() or not by.isprintable() or '"' in by or "\\" in by:
        raise ConfigurationError(f"by is {by!r}; give the name of a header, such as 'tenant', in ASCII.")
    return Lanes(LaneKind.SHARE, by, _numbers(lanes), (1,) * lanes)


def by_priority(*names: str, weights: Sequence[int] | None = None) -> Lanes:
    """Have lanes by priority, the most urgent first: `by_priority("urgent", "normal", "bulk")`; `send(…, priority=…)`.

    While all have messages each lane has as many turns as its weight, by default four times those of the next, so that
    none starves. Raises ConfigurationError.
    """
    if not names or len(set(names)) != len(names) or not all(map(_is_name, names)):
        raise ConfigurationError(
            f"The priorities are {names!r}; give different names of letters, digits, - and _, of 20 characters at most."
        )
    given = tuple(weights) if weights is not None else tuple(4**more for more in reversed(range(len(names))))
    if len(given) != len(names) or any(weight < 1 for weight in given):
        raise ConfigurationError(f"weights is {weights!r}; give each of {names!r} a number of 1 or more.")
    return Lanes(LaneKind.NAME, Header.PRIORITY, names, given)


def _is_name(given: object) -> bool:
    return isinstance(given, str) and _NAME.fullmatch(given) is not None


def require_lanes(given: object) -> Lanes | None:
    """Return what is given as lanes; raises ConfigurationError for anything else."""
    if given is None or isinstance(given, Lanes):
        return given
    raise ConfigurationError(
        f"lanes is {given!r}; give rowbus.by_key(16), rowbus.by_priority('urgent', 'normal') or "
        "rowbus.fair(by='tenant')."
    )


def assign(survey: Survey, process: int, lanes: int) -> Assignment:
    """Return what a process is to have: every so many-th lane."""
    if process not in survey.members:
        return Assignment(frozenset(), ())
    place, members = survey.members.index(process), len(survey.members)
    own = frozenset(range(place, lanes, members))
    stranded = tuple(
        holder.pid
        for lane, holder in survey.holders.items()
        if lane in own and holder.process is not None and holder.process not in survey.members
    )
    return Assignment(own, stranded)


def _numbers(lanes: object) -> tuple[str, ...]:
    if not isinstance(lanes, int) or isinstance(lanes, bool) or not 1 <= lanes <= MOST:
        raise ConfigurationError(f"lanes is {lanes!r}; give a number from 1 to {MOST}.")
    return tuple(map(str, range(lanes)))
