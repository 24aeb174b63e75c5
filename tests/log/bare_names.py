"""Finds, in the body of an SQL or PL/pgSQL function, what PostgreSQL would look up along the search path.

Strict rather than clever: it knows the few forms in which our functions write, and complains of every other one. What
stands in string literals, dynamic SQL that is, it does not see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

OUR_SCHEMAS = frozenset({"pgq", "pgq_coop", "pgq_ext", "pgq_node", "rowbus_spark"})
SCHEMAS = OUR_SCHEMAS | {"pg_catalog"}

KEYWORD_TYPES = frozenset({"bigint", "boolean", "integer", "interval", "numeric", "smallint"})
"""Types that are words of the grammar: they mean PostgreSQL's own under any search path."""

GRAMMAR_FUNCTIONS = frozenset({"array", "coalesce", "exists", "greatest", "least", "row"})
"""Words of the grammar that look like functions. Not NULLIF: it looks up an operator."""

BEFORE_BRACKET = GRAMMAR_FUNCTIONS | {
    "all", "and", "any", "as", "by", "case", "conflict", "continue", "distinct", "else", "elsif", "except", "execute",
    "filter", "from", "if", "into", "is", "lateral", "limit", "loop", "materialized", "not", "on", "or", "over",
    "perform", "query", "return", "returning", "select", "set", "then", "union", "using", "values", "when", "where",
    "with",
}  # fmt: skip
KEYWORDS = BEFORE_BRACKET | KEYWORD_TYPES | {
    "begin", "constant", "do", "end", "exception", "for", "foreach", "in", "message", "notice", "null", "raise",
    "warning",
}  # fmt: skip
NAME_OPERATORS = frozenset({"between", "cast", "ilike", "like", "natural", "nullif", "overlaps", "similar"})
RAISE_OPTIONS = frozenset({"detail", "errcode", "hint", "message"})
RELATION_AFTER = frozenset({"from", "join", "update", "table", "truncate"})
NOT_A_RELATION = frozenset({"(", "lateral", "only", "rows"})
AFTER_FROM = frozenset(
    {";", "except", "group", "limit", "loop", "order", "returning", "select", "set", "union", "where"}
)

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<infix>operator\(pg_catalog\.[-+*/<>=~!@\#%^&|`?]+\))
    | (?P<literal>[eE]?'(?:[^'\\]|''|\\.)*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | (?P<number>\d+(?:\.\d+)?(?!\.\.))
    | (?P<word>[A-Za-z_]\w*|"(?:[^"]|"")*"|\$\d+)
    | (?P<mark>::|:=|=>|\.\.|[.,;()\[\]])
    | (?P<operator>[-+*/<>=~!@\#%^&|`?]+|:)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = ("infix", "literal", "number", "word", "mark", "operator")


@dataclass(frozen=True)
class Token:
    """A token; a qualified name is one word, and `operator(pg_catalog.…)` one infix."""

    kind: str
    text: str

    @property
    def is_bare(self) -> bool:
        return self.kind == "word" and "." not in self.text


NOTHING = Token("mark", "")


def bare_names(body: str) -> list[str]:
    """Describe each bare name, operator, type or relation of a body; an empty list if there is none."""
    tokens = _tokens(body)
    found: list[str] = []
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else NOTHING
        after = tokens[place + 1] if place + 1 < len(tokens) else NOTHING
        found.extend(_complaints(before, token, after))
    return [*found, *_declared(tokens), *_relations(tokens), *_conditions(tokens), *_foreign(tokens)]


def _tokens(body: str) -> list[Token]:
    """Split a body into tokens; join qualified names."""
    tokens: list[Token] = []
    place = 0
    while place < len(body):
        match = _TOKEN.match(body, place)
        assert match, f"cannot read {body[place : place + 40]!r}"
        place = match.end()
        if match["space"] is None:
            _append(tokens, match)
    return tokens


def _append(tokens: list[Token], match: re.Match[str]) -> None:
    text = match[0]
    kind = next(kind for kind in _KINDS if match[kind] is not None)
    if kind == "word" and not text.startswith('"'):
        text = text.lower()
    if kind in {"word", "operator"} and tokens and tokens[-1].text.endswith(".") and tokens[-1].text != "..":
        tokens[-1] = Token("word", tokens[-1].text + text)
    elif text == "." and tokens and tokens[-1].kind == "word":
        tokens[-1] = Token("word", tokens[-1].text + ".")
    else:
        tokens.append(Token(kind, text))


def _complaints(before: Token, token: Token, after: Token) -> Iterator[str]:
    if token.kind == "operator" and not _is_harmless(before, token, after):
        yield f"operator {token.text}"
    if token.text == "::" and not _is_type(after):
        yield f"type {after.text}"
    if token.is_bare and after.text == "(" and token.text not in BEFORE_BRACKET and before.text != "as":
        yield f"function {token.text}"
    if token.is_bare and after.kind == "literal" and token.text not in KEYWORDS:
        yield f"type {token.text}"
    if token.text in NAME_OPERATORS:
        yield f"operator {token.text}"
    if token.text == "collate" and not after.text.startswith("pg_catalog."):
        yield f"collation {after.text}"


def _is_harmless(before: Token, token: Token, after: Token) -> bool:
    """Say whether what looks like an operator is none: a star, a slice, a sign, RAISE's and DIAGNOSTICS' own."""
    if token.text == "*":
        return before.text in {"select", "(", "all"} and after.text in {"from", ")", "into"}
    if token.text == "-":
        return after.kind == "number" and (before.kind == "infix" or before.text in {"(", ",", "["})
    is_option = before.text in RAISE_OPTIONS or after.text == "row_count"
    return token.text == ":" or (token.text == "=" and is_option)


def _is_type(token: Token) -> bool:
    return token.text in KEYWORD_TYPES or (token.text.partition(".")[0] in SCHEMAS and not token.is_bare)


def _declared(tokens: list[Token]) -> Iterator[str]:
    """Complain of the types of variables."""
    declaring = False
    for place, token in enumerate(tokens):
        if token.text in {"declare", "begin"}:
            declaring = token.text == "declare"
        if declaring and tokens[place - 1].text in {"declare", ";"} and token.kind == "word":
            kind = tokens[place + 1]
            if kind.text == "constant":
                kind = tokens[place + 2]
            if not _is_type(kind) and token.text != "declare":
                yield f"type {kind.text}"


def _relations(tokens: list[Token]) -> Iterator[str]:
    """Complain of relations, and of functions in FROM, without a schema."""
    common = {
        name.text
        for name, word, query in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if word.text == "as" and query.text in {"(", "materialized"}
    }
    for before, token, after in zip([NOTHING, *tokens], tokens, tokens[1:], strict=False):
        names = token.text in RELATION_AFTER and before.text not in {"for", "do"}
        names = names or (token.text == "into" and before.text == "insert")
        if names and after.is_bare and after.text not in NOT_A_RELATION and after.text not in common:
            yield f"relation {after.text}"
    yield from _listed(tokens, common)


def _listed(tokens: list[Token], common: set[str]) -> Iterator[str]:
    """Complain of what follows a comma in FROM; aliases are given with AS, so a name before AS is a relation."""
    depth, clauses = 0, set[int]()
    for place, token in enumerate(tokens):
        depth += (token.text in {"(", "["}) - (token.text in {")", "]"})
        if token.text == "from":
            clauses.add(depth)
        elif token.text in AFTER_FROM:
            clauses.discard(depth)
        elif token.text == ")":
            clauses.discard(depth + 1)
        elif token.text == "," and depth in clauses and tokens[place + 1].is_bare:
            yield from (f"relation {name}" for name in {tokens[place + 1].text} - NOT_A_RELATION)


def _conditions(tokens: list[Token]) -> Iterator[str]:
    """Complain of constructs of several words that look up an operator."""
    for before, token, after in zip([NOTHING, *tokens], tokens, [*tokens[1:], NOTHING], strict=False):
        if token.text == "case" and after.text not in {"when", ";"}:
            yield "operator = of a simple CASE"
        if token.text == "distinct" and before.text in {"is", "not"}:
            yield "operator = of IS DISTINCT FROM"
        if token.text == "in" and (after.text == "(" or before.text == "not"):
            yield "operator = of IN"
        if token.text == "using" and after.text == "(":
            yield "operator = of USING"


def _foreign(tokens: list[Token]) -> Iterator[str]:
    """Complain of functions of other schemas than PostgreSQL's and ours."""
    for token, after in pairwise(tokens):
        is_call = token.kind == "word" and after.text == "(" and not token.is_bare
        if is_call and token.text.partition(".")[0] not in SCHEMAS:
            yield f"function {token.text}"
