"""The names of captured tables. Invariant: a pure function, without Arrow."""

from __future__ import annotations


def full_name(table: str) -> str:
    """Return schema and table joined by a dot, as events have it; a name without a schema is of `public`."""
    return table if "." in table or table == "*" else f"public.{table}"
