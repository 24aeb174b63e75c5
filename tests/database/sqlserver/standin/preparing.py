"""Changes to a query's tokens before sqlglot reads them: what it does not know, or would read otherwise.

Variables become the columns `__v_…`, binary constants `__x_…`, global variables and functions without arguments
`__g_…`, functions of T-SQL's the
functions of the same name in the schema `sys`; clauses that it cannot parse are taken out and handed over.

Invariant: the text that is left is T-SQL that sqlglot parses.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.database.sqlserver.standin.tokens import Token, find, split, text_of, unquoted

GLOBALS = frozenset({"xact_state", "db_name", "suser_sname"})
_NAMES = (
    "nchar db_id getdate getutcdate sysutcdatetime dateadd datediff_big object_id schema_id type_name len datalength"
    " ident_current string_split charindex quotename newid has_perms_by_name"
)
FUNCTIONS = frozenset(_NAMES.split())
_DATED = frozenset({"dateadd", "datediff_big"})
_NOISE = frozenset({"clustered", "nonclustered"})


class Prepared(NamedTuple):
    """A query, and the items of its clause `output`."""

    text: str
    output: str | None


def prepare(parts: list[Token]) -> Prepared:
    """Take a query apart."""
    parts = [_plain(part) for part in parts if part.word not in _NOISE]
    output = None
    if parts[0].word == "delete":
        parts = _with_from(parts)
    if parts[0].word in {"delete", "update", "insert"}:
        parts, output = _without_output(parts)
    return Prepared(text_of(_functions(parts)), None if output is None else text_of(_functions(output)))


def _plain(part: Token) -> Token:
    """Give variables names that are names, and take the N off strings."""
    if part.kind == "string":
        return Token("string", part.text.lstrip("nN"))
    if part.kind == "number" and part.text[:2].lower() == "0x":
        return Token("word", f"__x_{part.text[2:].lower()}")
    if part.kind != "variable":
        return part
    name = part.text.lower()
    if name.startswith("@@"):
        return Token("word", f"__g_{name[2:]}")
    return Token("word", f"__v_{name[1:].replace('?', 'mark_')}")


def _with_from(parts: list[Token]) -> list[Token]:
    """Write `delete q …` and `delete q from t as q …` as `delete from …`."""
    if parts[1].word == "from":
        return parts
    place = find(parts, "from")
    return [parts[0], Token("word", "from"), *parts[1:]] if place is None else [parts[0], *parts[place:]]


def _without_output(parts: list[Token]) -> tuple[list[Token], list[Token] | None]:
    start = find(parts, "output")
    if start is None:
        return parts, None
    end = find(parts, "where", "from", "values", "select", start=start + 1) or len(parts)
    return [*parts[:start], *parts[end:]], parts[start + 1 : end]


def _functions(parts: list[Token]) -> list[Token]:
    """Rename T-SQL's functions, and write `convert(type, value)` as a cast."""
    found, place = list[Token](), 0
    while place < len(parts):
        part, after = parts[place], parts[place + 1].word if place + 1 < len(parts) else ""
        if part.kind == "word" and after == "(" and part.word in GLOBALS:
            found.append(Token("word", f"__g_{part.word}"))
            place += 3
        elif part.kind == "word" and after == "(" and part.word in {"convert", *_DATED}:
            end = _end(parts, place + 1)
            found += _call(part.word, split(parts[place + 2 : end]))
            place = end + 1
        elif (
            part.word in FUNCTIONS
            and after == "("
            and not (part.word == "nchar" and parts[place - 1].kind != "symbol")
        ):
            found += [Token("word", "sys"), Token("symbol", "."), part]
            place += 1
        else:
            found.append(part)
            place += 1
    return found


def _call(name: str, arguments: list[list[Token]]) -> list[Token]:
    inner = [_functions(argument) for argument in arguments]
    if name in _DATED:
        inner[0] = [Token("string", f"'{arguments[0][0].word}'")]
        return [Token("word", "sys"), Token("symbol", "."), Token("word", name), *_listed(inner)]
    kind, value = arguments[0], inner[1]
    opening, closing = Token("symbol", "("), Token("symbol", ")")
    return [Token("word", "cast"), opening, *value, Token("word", "as"), *kind, closing]


def _listed(arguments: list[list[Token]]) -> list[Token]:
    found = [Token("symbol", "(")]
    for argument in arguments:
        found += [*argument, Token("symbol", ",")]
    return [*found[:-1], Token("symbol", ")")]


def _end(parts: list[Token], opening: int) -> int:
    depth = 0
    for place in range(opening, len(parts)):
        depth += (parts[place].word == "(") - (parts[place].word == ")")
        if depth == 0:
            return place
    raise SyntaxError("Incorrect syntax near '('.")


def computed_column(parts: list[Token]) -> tuple[list[Token], str] | None:
    """Return the table and the name of `alter table … add X as cast(Body as nvarchar(max))`, if this is one."""
    place = find(parts, "add")
    if parts[0].word != "alter" or place is None or parts[place + 2 : place + 3] == []:
        return None
    is_computed = parts[place + 2].word == "as"
    return (parts[2:place], unquoted(parts[place + 1].text)) if is_computed else None
