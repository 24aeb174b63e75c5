"""Statements as text for people: what `rowbus schema` prints, and psql or sqlcmd runs.

Invariant: a value is written as a literal, quoted by the database's own rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.backends import backend_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses


class Scripts(NamedTuple):
    """How one database writes statements.

    `script` writes one statement, `definition` those that create something, `transaction` those that belong into one
    transaction.
    """

    script: Callable[[Statement[object]], str]
    definition: Callable[[Sequence[Statement[None]]], str]
    transaction: Callable[[Sequence[Statement[None]]], str]


def scripts_of(where: QueueAddress | Addresses) -> Scripts:
    """Return how the database of an address writes statements. No I/O."""
    scripts: Scripts = backend_class("rowbus.database", f"{where.backend}.script", "SCRIPTS")
    return scripts
