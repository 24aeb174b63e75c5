"""Statements as sqlcmd runs them.

Invariant: a value is written as a literal, its quotes doubled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.backends import Scripts
from rowbus.database.sqlserver.statements import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement


def _definition(statements: Sequence[Statement[None]]) -> str:
    """Write statements as batches of sqlcmd's, in a transaction if there are several: the first locks for the others.

    Each is a batch of its own, because each declares its variables.
    """
    texts = [script(statement) for statement in statements]
    if len(texts) > 1:
        texts = ["begin transaction;", *texts, "commit transaction;"]
    return "\n\n".join(f"{text}\ngo" for text in texts)


SCRIPTS: Final = Scripts(script, _definition, _definition)
