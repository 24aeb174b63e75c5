"""Statements as psql runs them.

Invariant: a value is written as a literal, quoted by the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.backends import Scripts
from rowbus.database.statements import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement


def _definition(statements: Sequence[Statement[None]]) -> str:
    return "\n\n".join(map(script, statements))


def _transaction(statements: Sequence[Statement[None]]) -> str:
    return "\n\n".join(["begin transaction;", *map(script, statements), "commit transaction;"])


SCRIPTS: Final = Scripts(script, _definition, _transaction)
