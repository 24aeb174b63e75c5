"""The copy of a table with which a table of a lake begins, as it is noted.

Invariant: values only, so that an older note is read with the defaults of what it does not say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Copy(NamedTuple):
    """A copy of a table: the snapshot and the shape it was made of, and the columns that are text."""

    snapshot: str
    shape: str
    as_text: list[str]
    moment: int = 0
    """Microseconds since 1970."""

    form: str = ""
    """The table's `TableForm` as JSON; empty where it is not sure that the copy shows it."""

    key: Sequence[str] = ()
    earlier: tuple[dict[str, str | None], dict[str, str | None]] = ({}, {})
    """An `Evolution`: how rows in the log may look that were written before the table was altered."""

    began: int = 0
    """Microseconds since 1970, before the snapshot was taken: what was committed by then is in the copy."""
