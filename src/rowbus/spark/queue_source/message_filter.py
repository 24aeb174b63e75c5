"""The messages of a queue that the option `where` leaves.

Two columns are the table's own, so the database decides. The other two are in the headers, which are JSON: there the
database leaves out what it can be sure of, text without escapes, and whoever parses the headers decides.

Invariant: the database never leaves out a message for which the conditions are true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.messages.timestamps import format_timestamp
from rowbus.spark.filters.conditions import MOMENT, NUMBER, TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.spark.filters.conditions import Conditions, Kind

KINDS: Final[Mapping[str, Kind]] = {
    "message_type": TEXT,
    "time_sent": MOMENT,
    "expires": MOMENT,
    "seq": NUMBER,
}
"""The columns that conditions may be on."""

IN_HEADERS: Final = ("message_type", "time_sent")


def literals(where: Conditions) -> dict[str, object]:
    """Return the conditions as the statement that looks at messages takes them; None is no condition."""
    own = {
        f"{column}_{name}": sorted(limit) if name == "one_of" and limit is not None else limit
        for column in KINDS
        if column not in IN_HEADERS
        for name, limit in where.of(column)._asdict().items()
    }
    sent = where.of("time_sent")
    return {
        **own,
        "texts": _texts(where),
        "sent_least": _digits(sent.lowest),
        "sent_most": _digits(sent.highest),
    }


def in_headers(where: Conditions) -> tuple[str, ...]:
    """Return the columns from headers that there are conditions on."""
    return tuple(column for column in IN_HEADERS if column in where.values)


def _digits(moment: datetime | None) -> str | None:
    """Return the digits of a moment as headers have it."""
    return None if moment is None else "".join(filter(str.isdigit, format_timestamp(moment)))


def _texts(where: Conditions) -> list[str] | None:
    """Return the texts of which one is in the headers of each message with a type that is asked for."""
    types = where.of("message_type")
    if types.one_of is not None:
        return sorted(types.one_of)
    return None if types.prefix is None else [types.prefix]
