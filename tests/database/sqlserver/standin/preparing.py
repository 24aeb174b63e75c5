"""Changes to a query's tokens before sqlglot reads them: what it does not know, or would read otherwise.

Variables become the columns `__v_…`, binary constants `__x_…`, global variables and functions without arguments
`__g_…`, functions of T-SQL's the
functions of the same name in the schema `sys`; clauses that it cannot parse are taken out and handed over.

Invariant: the text that is left is T-SQL that sqlglot parses.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.database.sqlserver.standin.tokens import Token, find, split, text_of, unquoted

GLOBALS = frozenset(
    [
        "xact_state",
        "db_name",
        "scope_identity",
        "error_number",
        "error_message",
        "error_severity",
        "error_state",
        "suser_sname",
        "original_login",
        "app_name",
    ]
)
FUNCTIONS = frozenset(
    [
        "nchar",
        "db_id",
        "getutcdate",
        "sysutcdatetime",
        "getdate",
        "sysdatetime",
        "dateadd",
        "datediff",
        "datediff_big",
        "object_id",
        "object_name",
        "schema_id",
        "schema_name",
        "type_name",
        "len",
        "datalength",
        "ident_current",
        "string_split",
        "charindex",
        "stuff",
        "quotename",
        "newid",
        "db_exists",
        "has_perms_by_name",
        "object_definition",
        "object_schema_name",
        "col_length",
        "indexproperty",
        "suser_id",
        "isjson",
    ]
)
_DATED = frozenset({"dateadd", "datediff", "datediff_big"})
_NOISE = frozenset({"clustered", "nonclustered"})


class Prepared(NamedTuple):
    """A query's parts; `output` is its clause's items, `into` where they go, `top` how many rows it may change."""

    text: str
    output: str | None
    into: list[Token] | None
    top: str | None


def prepare(parts: list[Token], tables: frozenset[str] = frozenset()) -> Prepared:
    """Take a query apart; `tables` are the names of table variables. Raises SyntaxError for PostgreSQL's own SQL."""
    if any(part.word == "pg_catalog" for part in parts):
        raise SyntaxError("Incorrect syntax near 'pg_catalog': SQL Server has none.")
    parts = [_plain(part, tables) for part in parts if part.word not in _NOISE]
    top = output = into = None
    if parts[0].word in {"delete", "update"}:
        parts, top = _without_top(parts)
    if parts[0].word == "delete":
        parts = _with_from(parts)
    if parts[0].word in {"delete", "update", "insert"}:
        parts, output, into = _without_output(parts)
    return Prepared(
        text_of(_functions(parts)),
        None if output is None else text_of(_functions(output)),
        into,
        None if top is None else text_of(top),
    )


def _plain(part: Token, tables: frozenset[str]) -> Token:  # noqa: PLR0911 - one for each kind of token
    """Give variables names that are names, and take the N off strings."""
    if part.kind == "string":
        return Token("string", part.text.lstrip("nN"))
    if part.word == "current_catalog":
        return Token("name", "[current_catalog]")
    if part.kind == "number" and part.text[:2].lower() == "0x":
        return Token("word", f"__x_{part.text[2:].lower()}")
    if part.kind != "variable":
        return part
    name = part.text.lower()
    if name in tables:
        return Token("word", f"__t_{name[1:]}")
    if name.startswith("@@"):
        return Token("word", f"__g_{name[2:]}")
    return Token("word", f"__v_{name[1:].replace('?', 'mark_')}")


def _without_top(parts: list[Token]) -> tuple[list[Token], list[Token] | None]:
    if parts[1].word != "top":
        return parts, None
    end = next(place for place, part in enumerate(parts) if part.word == ")")
    return [parts[0], *parts[end + 1 :]], parts[3:end]


def _with_from(parts: list[Token]) -> list[Token]:
    """Write `delete q …` and `delete q from t as q …` as `delete from …`."""
    if parts[1].word == "from":
        return parts
    place = find(parts, "from")
    return [parts[0], Token("word", "from"), *parts[1:]] if place is None else [parts[0], *parts[place:]]


def _without_output(parts: list[Token]) -> tuple[list[Token], list[Token] | None, list[Token] | None]:
    start = find(parts, "output")
    if start is None:
        return parts, None, None
    end = find(parts, "where", "from", "values", "select", start=start + 1) or len(parts)
    clause = parts[start + 1 : end]
    rest = [*parts[:start], *parts[end:]]
    target = find(clause, "into")
    return (rest, clause, None) if target is None else (rest, clause[:target], clause[target + 1 :])


def _functions(parts: list[Token]) -> list[Token]:
    """Rename T-SQL's functions, and write `convert(type, value)` as a cast."""
    found, place = list[Token](), 0
    while place < len(parts):
        part, after = parts[place], parts[place + 1].word if place + 1 < len(parts) else ""
        if part.kind == "word" and after == "(" and part.word in GLOBALS:
            found.append(Token("word", f"__g_{part.word}"))
            place += 3
        elif part.kind == "word" and after == "(" and part.word in {"convert", "try_convert", *_DATED}:
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
    if len(inner) > 2 and kind[0].word in {"varchar", "nvarchar", "char"}:
        return [*_sys("convert_text"), *_listed([value, inner[2]])]
    opening, closing = Token("symbol", "("), Token("symbol", ")")
    return [Token("word", "cast"), opening, *value, Token("word", "as"), *kind, closing]


def _sys(name: str) -> list[Token]:
    return [Token("word", "sys"), Token("symbol", "."), Token("word", name)]


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
