"""The SQL files of the log, each bound once for the name that its errors give.

Invariant: what is remembered depends on its arguments only; a log's name is a parameter, never in the text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rowbus.database.statements import load

if TYPE_CHECKING:
    from rowbus.database.statements import Query

FOLDER: Final = "log/sql/postgresql"
QUERIES_KEPT: Final = 1024  # a few dozen operations, for each log and consumer that their errors name


@lru_cache(QUERIES_KEPT)  # a ticker and a consumer run some of them several times a second
def log_query(operation: str, failing: str, *, log: str | None = None, prepare: bool = False) -> Query:
    """Return the query of a file without identifiers: `log` names the log whose absence is a LogNotFoundError."""
    return load(f"{FOLDER}/{operation}.sql", failing=failing, log=log, prepare=prepare)
