"""Owners of the schemas and objects that Rowbus builds upon or runs: a stranger's code would run with our rights.

Invariant: pure; the caller says which owners are trusted, the text says what to do about the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_SHOWN: Final = 5  # objects named in an error


class Foreign(NamedTuple):
    """An object of a role that this one cannot trust."""

    what: str
    owner: str
    is_databases: bool = False
    """Whether that is the owner of this database."""

    table: str = ""
    """The table of a queue that it is, or that runs it."""

    def __str__(self) -> str:
        return f"{self.what} belongs to {self.owner}"


def refusal(found: Sequence[Foreign], looked_after: str = "the log") -> str:
    """Say why nothing is installed, and what to do."""
    shown = ", ".join(map(str, found[:MOST_SHOWN]))
    more = len(found) - MOST_SHOWN
    and_more = f", and there are {more} more" if more > 0 else ""
    return (
        f"Nothing was installed, for it would be built upon what another role can change: {shown}{and_more}. "
        f"Install as that role, if it is the one that looks after {looked_after}. Else see what was made there, and "
        f"have a superuser drop or revoke it, or give it to the role that installs (alter … owner to …)."
    )


def suspicious(found: Sequence[Foreign]) -> list[Foreign]:
    """Return the objects that another role than the database's owner owns, for reports."""
    return [foreign for foreign in found if not foreign.is_databases]
