"""The cause of the changes that a transaction makes, as settings of the transaction: which message, handler and user.

Triggers read the settings; those of captured tables write them beside a change.

Invariants: the settings end with their transaction, so no session keeps them; no text makes the statement fail, in
whatever encoding the database stores texts: `rowbus.cause` is ASCII, and a part that the database may not hold is
escaped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rowbus.database.statements import Statement, load, no_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg.pq.abc import PGconn

_FAILING: Final = "Could not say what causes the changes of a transaction"
_QUERY: Final = load("database/sql/postgresql/set_cause.sql", failing=_FAILING)
_PARTS: Final = _QUERY.names[1:]
_UTF8: Final = (b"UTF8", b"UTF8")

_UNKNOWN: Final = dict.fromkeys(_QUERY.names, "")

NOTHING: Final = Statement(_QUERY, _UNKNOWN, no_rows)
"""Says that nothing causes the changes that follow."""


def cause_values(parts: Mapping[str, str], pgconn: PGconn) -> Statement[None]:
    """Return what says, until the transaction ends, what causes its changes."""
    known = {name: text for name in _PARTS if (text := parts.get(name))}
    texts = {**_UNKNOWN, **known, "cause": json.dumps(known) if known else ""}
    values = {name: text if _is_plain(text) else _encoded(text, pgconn) for name, text in texts.items()}
    return Statement(_QUERY, values, no_rows)


def _is_plain(text: str) -> bool:
    return text.isascii() and "\0" not in text


def _encoded(text: str, pgconn: PGconn) -> str:
    """Return a text as the database can hold it."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    encodings = (pgconn.parameter_status(b"server_encoding"), pgconn.parameter_status(b"client_encoding"))
    encoded = (
        text.encode("utf-8", "replace") if encodings == _UTF8 else text.encode("ascii", "backslashreplace")
    )
    return encoded.decode()
