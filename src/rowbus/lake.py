"""The completeness of a lake's tables: whether they show a transaction, or all that was committed before a time.

```python
with psycopg.connect(dsn) as connection, connection.transaction():
    pay_order(connection, 42)  # whatever it writes
    token = rowbus.Log(connection, "changes").position()

shown = await rowbus.lake.visible(token, within="30s", to="/data/lake")
```

Invariants: only the lake's folder is read, neither the database nor a table; what is said is exact, because a tick
and a copy are snapshots of the database.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError, StorageError
from rowbus.messages.timestamps import with_zone
from rowbus.running.backoff import doubling
from rowbus.running.setting_types import time_span
from rowbus.spark.lake.storage import check_storage
from rowbus.spark.lake.tables.folder import Completeness, LakeFolder, is_shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from pathlib import Path

__all__ = ["Completeness", "complete", "is_complete", "visible"]

LAKE_VARIABLE: Final = "ROWBUS_LAKE"
_FIRST, _LONGEST = 0.05, 1.0  # seconds between two looks


def complete(*, to: str | Path | None = None) -> dict[str, Completeness]:
    """Return how far each table of a lake is that is followed, by the names in the database.

    `to` is the lake's folder; without it, the environment variable ROWBUS_LAKE says which. Raises ConfigurationError
    when neither does, StorageError where the lake cannot be read.
    """
    return _look(_folder(to))


def is_complete(
    until: int | datetime, *, to: str | Path | None = None, tables: Sequence[str] = ("*",)
) -> bool:
    """Return whether tables show a transaction, or all that was committed before a time by the database's clock.

    `until` is a time (UTC unless it says another zone), or a token of `Log.position`. Each of `tables`, as
    `shop.orders` or `shop.*`, has to be followed: nothing is complete in an empty lake. Raises as `complete`, and
    ConfigurationError for another `until`.
    """
    return is_shown(complete(to=to), tables, _checked(until))


async def visible(
    until: int | datetime,
    *,
    within: str | timedelta | None,
    to: str | Path | None = None,
    tables: Sequence[str] = ("*",),
) -> bool:
    """Wait until `is_complete`, and say whether it came true `within` a span such as `30s`; None waits without end.

    Looks at once, and then ever less often, every second at most. A transaction that was rolled back has nothing to
    show, and counts as shown. Raises as `is_complete`.
    """
    wanted, folder = _checked(until), await asyncio.to_thread(_folder, to)
    end = None if within is None else time.monotonic() + time_span(within).total_seconds()
    looks = 0
    while not is_shown(await asyncio.to_thread(_look, folder), tables, wanted):
        looks += 1
        pause = doubling(looks, first=_FIRST, most=_LONGEST)
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            return False
        await asyncio.sleep(min(pause, left))
    return True


def _folder(to: str | Path | None) -> LakeFolder:
    place = to or os.environ.get(LAKE_VARIABLE)
    if not place:
        raise ConfigurationError(
            f"Which lake is not said: give its folder, to=…, or set {LAKE_VARIABLE} to it.", option="to"
        )
    folder = LakeFolder(place)
    if "://" in folder.path:
        check_storage(folder.path)
    return folder


def _look(folder: LakeFolder) -> dict[str, Completeness]:
    try:
        return folder.complete()
    except OSError as error:
        text = f"The lake {folder.path} cannot be read: {str(error).partition(chr(10))[0]}"
        raise StorageError(text, sqlstate=None, transient=True) from error


def _checked(until: object) -> int | datetime:
    if isinstance(until, datetime):
        return with_zone(until)
    if isinstance(until, bool) or not isinstance(until, int) or until < 1:
        raise ConfigurationError(
            f"{until!r} is neither a time nor the number of a transaction, as `Log.position` gives it.",
            option="until",
        )
    return until
