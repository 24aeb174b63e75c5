"""The events that the option `where` leaves: conditions of the statements that read, and a shorter range of ticks.

Only transaction ids shorten the range, because snapshots say exactly which transactions lie between two ticks. Times do
not: an event's is the start of its transaction, which may have been idle for hours before it wrote, and the owner of a
log may append events with other times.

Invariant: pure functions. An event for which the conditions are true lies in the shorter range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.spark.filters.conditions import MOMENT, NUMBER, TEXT
from rowbus.spark.filters.values import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.spark.filters.conditions import Conditions, Kind
    from rowbus.spark.filters.values import Values
    from rowbus.spark.log_source.offset import TickPosition

KINDS: Final[Mapping[str, Kind]] = {
    "ev_id": NUMBER,
    "ev_time": MOMENT,
    "ev_txid": NUMBER,
    "ev_type": TEXT,
    "ev_extra1": TEXT,
}
"""The columns that conditions may be on."""


def literals(where: Conditions) -> dict[str, object]:
    """Return the conditions as the statements that read events take them; None is no condition."""
    return {
        f"{column}_{name}": sorted(limit) if name == "one_of" and limit is not None else limit
        for column in KINDS
        for name, limit in _possible(where, column)._asdict().items()
    }


def _possible(where: Conditions, column: str) -> Values:
    """Return what a column may hold: of one that is never NULL nothing, if it is to be that."""
    values = where.of(column)
    return NOTHING if values.null and KINDS[column] is not TEXT else values


def shorten(
    where: Conditions, begin: TickPosition, end: TickPosition, between: Sequence[TickPosition]
) -> tuple[TickPosition, TickPosition]:
    """Return the ticks closest to each other, of those between and of the ends, between which the events lie."""
    least, most = where.of("ev_txid").lowest, where.of("ev_txid").highest
    ticks = [begin, *between, end]
    for tick in ticks:
        if least is not None and tick.snapshot.xmax <= least:
            begin = tick
    for tick in reversed(ticks):
        if most is not None and tick.snapshot.xmin > most:
            end = tick
    return (begin, end) if begin.tick < end.tick else (begin, begin)
