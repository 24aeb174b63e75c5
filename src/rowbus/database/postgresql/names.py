"""Unqualified names in statements, in sessions of roles whose search path holds what others created.

Invariant: what looks names up in pg_catalog alone runs no function of another role.
"""

from __future__ import annotations

from rowbus.database.statements import Statement, load, no_rows


def look_up_in_catalog() -> Statement[None]:
    """Have every unqualified name of this session mean what pg_catalog says."""
    query = load(
        "database/sql/postgresql/look_up_in_catalog.sql",
        failing="Failed to set the search path",
        prepare=False,
    )
    return Statement(query, {}, no_rows)
