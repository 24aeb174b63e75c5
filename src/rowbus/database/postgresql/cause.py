"""What causes the changes that a transaction makes, as settings of the transaction: which message, handler and user.

Triggers read the settings; those of captured tables write them beside a change.

Invariants: the settings end with their transaction, so no session keeps them; no text makes the statement fail, in
whatever encoding the database stores texts: `rowbus.cause` is ASCII, and a part that the database may not hold is
escaped.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from psycopg.pq import Escaping

from rowbus.database.statements import Statement, load, no_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg.pq.abc import PGconn

_FAILING: Final = "Could not say what causes the changes of a transaction"
_QUERY: Final = load("database/sql/postgresql/set_cause.sql", failing=_FAILING)
_TEXT: Final = re.split(rb"\$\d+", _QUERY.native)
_PARTS: Final = _QUERY.names[1:]
_UTF8: Final = (b"UTF8", b"UTF8")


def set_cause(parts: Mapping[str, str], pgconn: PGconn) -> Statement[None]:
    """Return what says, until the transaction ends, what causes its changes; nothing does where there are no parts.

    The values are in the text: it travels with a savepoint, whose command takes none.
    """
    quoted = map(Escaping(pgconn).escape_literal, _texts(parts, pgconn))
    text = b"".join([_TEXT[0], *(part for pair in zip(quoted, _TEXT[1:], strict=True) for part in pair)])
    return Statement(_QUERY._replace(text=text, native=text, names=(), prepare=False), {}, no_rows)


def cause_values(parts: Mapping[str, str], pgconn: PGconn) -> Statement[None]:
    """Return the same with parameters, for a session that may keep its plan."""
    values = [text.decode() for text in _texts(parts, pgconn)]
    return Statement(_QUERY, dict(zip(_QUERY.names, values, strict=True)), no_rows)


def _texts(parts: Mapping[str, str], pgconn: PGconn) -> list[bytes]:
    encodings = (pgconn.parameter_status(b"server_encoding"), pgconn.parameter_status(b"client_encoding"))
    way = ("utf-8", "replace") if encodings == _UTF8 else ("ascii", "backslashreplace")
    known = {name: text for name in _PARTS if (text := parts.get(name))}
    told = json.dumps(known) if known else ""
    return [
        told.encode(),
        *(known.get(name, "").replace("\0", "\N{REPLACEMENT CHARACTER}").encode(*way) for name in _PARTS),
    ]
