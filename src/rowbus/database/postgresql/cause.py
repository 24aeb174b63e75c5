"""What causes the changes that a transaction makes, as settings of the transaction: which message, handler and user.

Triggers read the settings; those of captured tables write them beside a change.

Invariants: the settings end with their transaction, so no session keeps them; no text makes the statement fail, in
whatever encoding the database stores texts: `rowbus.cause` is ASCII, and a part that the database may not hold is
escaped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from psycopg.pq import Escaping

from rowbus.database.statements import Statement, control, load, no_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg.pq.abc import PGconn

_FAILING: Final = "Could not say what causes the changes of a transaction"
_QUERY: Final = load("database/sql/postgresql/set_cause.sql", failing=_FAILING)
_PARTS: Final = _QUERY.names[1:]
_COMMANDS: Final = tuple(f'set local rowbus."{name}" = '.encode() for name in _QUERY.names)
_UTF8: Final = (b"UTF8", b"UTF8")

NOTHING: Final = Statement(_QUERY, dict.fromkeys(_QUERY.names, ""), no_rows)
"""Says that nothing causes the changes that follow."""


def cause_commands(parts: Mapping[str, str], pgconn: PGconn) -> Sequence[Statement[None]]:
    """Return what says, until the transaction ends, what causes its changes; nothing does where there are no parts.

    The values are in the text: it travels with a savepoint, whose command takes none. The server needs a quarter of the
    time that it takes for a SELECT of the same.
    """
    texts = _texts(parts)
    return [
        control(command + _quoted(text, pgconn), _FAILING)
        for command, text in zip(_COMMANDS, texts, strict=True)
    ]


def cause_values(parts: Mapping[str, str], pgconn: PGconn) -> Statement[None]:
    """Return the same as one statement with parameters, for a session that may keep its plan."""
    values = [_encoded(text, pgconn).decode() for text in _texts(parts)]
    return Statement(_QUERY, dict(zip(_QUERY.names, values, strict=True)), no_rows)


def _texts(parts: Mapping[str, str]) -> list[str]:
    known = {name: text for name in _PARTS if (text := parts.get(name))}
    return [json.dumps(known) if known else "", *(known.get(name, "") for name in _PARTS)]


def _quoted(text: str, pgconn: PGconn) -> bytes:
    """Return a text as a literal; libpq quotes it, unless it is one between quotes whatever the settings are."""
    if text.isascii() and not ("'" in text or "\\" in text or "\0" in text):
        return b"'%b'" % text.encode()
    return Escaping(pgconn).escape_literal(_encoded(text, pgconn))


def _encoded(text: str, pgconn: PGconn) -> bytes:
    """Return a text as the database can hold it."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if text.isascii():
        return text.encode()
    encodings = (pgconn.parameter_status(b"server_encoding"), pgconn.parameter_status(b"client_encoding"))
    return text.encode("utf-8", "replace") if encodings == _UTF8 else text.encode("ascii", "backslashreplace")
