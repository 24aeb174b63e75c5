"""The cause of the changes that a transaction makes, as settings of the transaction: which message, handler and user.

Triggers read the settings; those of captured tables write them beside a change.

Invariants: the settings end with their transaction, so no session keeps them; no text makes the statement fail, in
whatever encoding the database stores texts: `rowbus.cause` is ASCII, and a part that the database may not hold is
escaped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from psycopg.pq import Escaping

from rowbus.database.statements import Statement, load, no_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg.pq.abc import PGconn

_FAILING: Final = "Could not say what causes the changes of a transaction"
_QUERY: Final = load("database/sql/postgresql/set_cause.sql", failing=_FAILING)
_PARTS: Final = _QUERY.names[1:]
_COMMANDS: Final = tuple(f'set local rowbus."{name}" = '.encode() for name in _QUERY.names)
_UTF8: Final = (b"UTF8", b"UTF8")

NOTHING: Final = Statement(_QUERY, dict.fromkeys(_QUERY.names, ""), no_rows)
"""Says that nothing causes the changes that follow."""


def cause_commands(parts: Mapping[str, str], pgconn: PGconn, *, is_first: bool) -> list[bytes]:
    """Return the commands that say, until the transaction ends, what causes its changes.

    The values are in the texts: they travel with a savepoint, whose command takes none. The server needs a quarter of
    the time that it takes for a SELECT of the same. `is_first`: the transaction says nothing yet, so what is not known
    is left out.
    """
    return [
        b"%b'%b'" % (command, text.encode()) if _is_plain(text) else command + _quoted(text, pgconn)
        for command, text in zip(_COMMANDS, _texts(parts), strict=True)
        if text or not is_first
    ]


def cause_values(parts: Mapping[str, str], pgconn: PGconn) -> Statement[None]:
    """Return the same as one statement with parameters, for a session that may keep its plan."""
    values = [_encoded(text, pgconn).decode() for text in _texts(parts)]
    return Statement(_QUERY, dict(zip(_QUERY.names, values, strict=True)), no_rows)


def _texts(parts: Mapping[str, str]) -> list[str]:
    known = {name: text for name in _PARTS if (text := parts.get(name))}
    return [json.dumps(known) if known else "", *(known.get(name, "") for name in _PARTS)]


def _is_plain(text: str) -> bool:
    """Say whether a text is a literal between quotes, whatever the settings are."""
    return text.isascii() and not ("'" in text or "\\" in text or "\0" in text)


def _quoted(text: str, pgconn: PGconn) -> bytes:
    return Escaping(pgconn).escape_literal(_encoded(text, pgconn))


def _encoded(text: str, pgconn: PGconn) -> bytes:
    """Return a text as the database can hold it."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if text.isascii():
        return text.encode()
    encodings = (pgconn.parameter_status(b"server_encoding"), pgconn.parameter_status(b"client_encoding"))
    return text.encode("utf-8", "replace") if encodings == _UTF8 else text.encode("ascii", "backslashreplace")
