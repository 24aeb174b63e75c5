"""The tokens of T-SQL, without its comments and spaces.

Invariant: joining the texts of tokens with spaces gives a batch that means the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<blank>   \s+ | --[^\n]* | /\*.*?\*/)
    | (?P<string>  N?'(?:[^']|'')*')
    | (?P<name>    \[(?:[^\]]|\]\])*\] | "(?:[^"]|"")*")
    | (?P<variable>@@?[\w?]+)
    | (?P<number>  0x[0-9a-f]* | \d+(?:\.\d+)?)
    | (?P<word>    [^\W\d][\w#$]*)
    | (?P<mark>    \?)
    | (?P<symbol>  <> | <= | >= | != | .)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


class Token(NamedTuple):
    """A token; `word` is its text in lower case, where it is a word or a symbol."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind in {"word", "symbol"} else ""


def tokens(text: str) -> list[Token]:
    """Take a text apart; the n-th mark becomes the variable `@?n`."""
    found = [Token(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(text)]
    kept, marks = list[Token](), 0
    for token in found:
        if token.kind == "mark":
            marks += 1
            kept.append(Token("variable", f"@?{marks}"))
        elif token.kind != "blank":
            kept.append(token)
    return kept


def text_of(parts: Iterable[Token]) -> str:
    """Join tokens to a text again."""
    return " ".join(token.text for token in parts)


def split(parts: list[Token], separator: str = ",") -> list[list[Token]]:
    """Split at a symbol or word that is not in parentheses."""
    pieces: list[list[Token]] = [[]]
    for token, depth in with_depth(parts):
        if depth == 0 and token.word == separator:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def with_depth(parts: list[Token]) -> Iterable[tuple[Token, int]]:
    """Yield each token with the number of parentheses around it; a parenthesis counts as inside itself."""
    depth = 0
    for token in parts:
        depth += token.word == "("
        yield token, depth
        depth -= token.word == ")"


def find(parts: list[Token], *words: str, start: int = 0) -> int | None:
    """Return the place of the first of some words that is not in parentheses."""
    for place, (token, depth) in enumerate(with_depth(parts)):
        if place >= start and depth == 0 and token.word in words:
            return place
    return None


def unquoted(text: str) -> str:
    """Return the value of a quoted string, or the name in a quoted identifier."""
    if text[:1] in "nN" and text[1:2] == "'":
        text = text[1:]
    quotes = {"'": "'", "[": "]", '"': '"'}
    if text[:1] in quotes:
        end = quotes[text[0]]
        return text[1:-1].replace(end * 2, end)
    return text
