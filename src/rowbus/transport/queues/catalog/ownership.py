"""The owner of a table, and whether it is read: a table runs its owner's code in the session that reads it.

A view does, and a row security policy, a cast of a column's type, an expression of an index.

Invariant: pure; `owners.sql` says who is trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLES: Final = frozenset({"r", "p"})
LOCKED: Final = "locked"
POLICED: Final = "it has row security policies"
LIFTED: Final = "use a role that has BYPASSRLS, or `alter table … disable row level security`"


class Ownership(NamedTuple):
    """A table's kind, what it is, and its owner and its schema's if they are not trusted."""

    kind: str | None
    """None: there is only its schema."""

    what: str
    owner: str | None
    schema_owner: str | None
    is_policed: bool
    """Whether row security policies apply to this role."""

    is_firm: bool
    """Whether only trusted roles can alter it, or put something in its place."""

    things: Sequence[str] = ()
    """The code that it runs of owners that are not trusted: functions, operators, types."""

    owners: Sequence[str] = ()
    """The owner of each of these."""

    @property
    def reason(self) -> str:
        """The reason not to read it; empty if there is none."""
        if self.owner is not None:
            return f"belongs to {self.owner}"
        if self.schema_owner is not None:
            return f"its schema belongs to {self.schema_owner}"
        if self.kind not in TABLES:
            return "it is no table"
        return POLICED if self.is_policed else ""

    @property
    def runs(self) -> str:
        """The code of a stranger's that it runs when it is written to; empty if there is none."""
        return f"it runs {self.things[0]}, which belongs to {self.owners[0]}" if self.things else ""


def not_looked_at(reason: str) -> str:
    """Say that a table is left out, and why."""
    return f"not looked at: {reason}"


def explain(subject: object, reason: str) -> str:
    """Say that a table is left out, why, and what to do about it."""
    return f"{subject} is {not_looked_at(reason)}. What to do: {advice(reason)}."


def advice(reason: str) -> str:
    """Say what to do about a table that is left out."""
    if reason == LOCKED:
        return "see who alters it, or has locked it, in pg_locks"
    if reason == POLICED:
        return f"they hide rows from this role without an error; {LIFTED}"
    return (
        "if its owner is to be trusted with what this role may do, name it: rowbus.trusted_owners (docs/security.md); "
        "else ask who made it"
    )
