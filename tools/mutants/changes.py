"""Small changes of a source file, as a careless hand would make them: places and texts, nothing is written here.

Invariant: a change leaves Python that compiles; one of SQL may be refused by the server, which a test then notices.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
CLAUSE = re.compile(
    r"^[ \t]*(?:and|or|where|order by|limit|for (?:no key )?update|for share|skip locked|on conflict|having)\b[^\n]*$",
    re.MULTILINE,
)
SQL_COMPARISON = re.compile(r"(?<=[\w)'\"] )(<=|>=|<>|<|>|=)(?= [\w(:'\"])")
SQL_TURNED = {"<=": "<", ">=": ">", "<": "<=", ">": ">=", "=": "<>", "<>": "="}
SQL_NUMBER = re.compile(r"(?<=[ (])\d+(?=[ ,);\n])")
SQL_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Change:
    """A piece of a file (characters `start` to `end`) and what stands there instead; `path` is relative to src."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    instead: str

    @property
    def id(self) -> str:
        """Return a name that the change keeps as long as its file is the same."""
        return f"{self.path}:{self.line}:{self.start}:{self.kind}"

    def applied(self, text: str) -> str:
        """Return a text with the change made."""
        return text[: self.start] + self.instead + text[self.end :]

    def shown(self, text: str) -> str:
        """Return the change on one line."""
        before = " ".join(text[self.start : self.end].split())
        return f"{self.path}:{self.line} {self.kind}: {before!r} → {' '.join(self.instead.split())!r}"


def changes_in(root: Path, path: Path) -> list[Change]:
    """Return all changes of a file that this module knows, in the order of their places."""
    text = path.read_text(encoding="utf-8")
    name = str(path.relative_to(root))
    found = _python(name, text) if path.suffix == ".py" else _sql(name, text)
    return sorted(found, key=lambda change: (change.start, change.kind))


def _sql(name: str, text: str) -> Iterator[Change]:
    # Comments become spaces, so that what is found has the place that it has in the file.
    code = SQL_COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for kind, pattern in (("clause", CLAUSE), ("comparison", SQL_COMPARISON), ("constant", SQL_NUMBER)):
        for match in pattern.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            instead = {
                "clause": "",
                "comparison": SQL_TURNED.get(match[0], ""),
                "constant": str(int(match[0]) + 1) if kind == "constant" else "",
            }[kind]
            yield Change(name, line, kind, match.start(), match.end(), instead)


def _python(name: str, text: str) -> Iterator[Change]:
    tree = ast.parse(text)
    source = _Source(name, text)
    for node in _executed(tree):
        yield from source.changes(node)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through what runs: no annotations, no decorators, nothing for type checkers alone."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            is_for_checkers = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            if isinstance(child, ast.AST) and not is_for_checkers:
                yield from _executed(child)


class _Source:
    """The text of a module, and how nodes lie in it."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines(keepends=True)

    def changes(self, node: ast.AST) -> Iterator[Change]:
        """Give what can be changed of a node itself, not of those below it."""
        match node:
            case ast.Compare(ops=[operator], left=left, comparators=[right]):
                yield self._between(left, right, "comparison", f" {COMPARISONS[type(operator)]} ")
            case ast.BoolOp(values=[first, *_]):
                yield self._all(node, "condition", f"({self._of(first)})")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._all(node, "condition", f"({self._of(operand)})")
            case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Constant):
                yield self._all(test, "condition", "True")
            case ast.Constant(value=bool(value)):
                yield self._all(node, "constant", str(not value))
            case ast.Constant(value=int(value)):
                yield self._all(node, "constant", str(value + 1))
            case _:
                pass
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                yield from self._orders(body)

    def _orders(self, body: list[ast.stmt]) -> Iterator[Change]:
        """Change the order of neighbours that wait, or that commit; and leave one that waits out."""
        for first, second in pairwise(body):
            swapped = f"{self._of(second)}\n{' ' * first.col_offset}{self._of(first)}"
            if "commit" in self._of(second).split("(")[0] and _is_simple(first) and _is_simple(second):
                yield self._span(first, second, "commit", swapped)
            elif _waits(first) and _waits(second):
                yield self._span(first, second, "await", swapped)
        for statement in body:
            if _waits(statement):
                yield self._all(statement, "await", "pass")

    def _of(self, node: ast.AST) -> str:
        start, end = self._place(node)
        return self._text[start:end]

    def _place(self, node: ast.AST) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]  # statements and expressions

    def _at(self, line: int, column: int) -> int:
        """Return a place in characters; columns are bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _all(self, node: ast.AST, kind: str, instead: str) -> Change:
        return self._change(node, *self._place(node), kind, instead)

    def _span(self, first: ast.AST, second: ast.AST, kind: str, instead: str) -> Change:
        return self._change(first, self._place(first)[0], self._place(second)[1], kind, instead)

    def _between(self, left: ast.AST, right: ast.AST, kind: str, instead: str) -> Change:
        start, end = self._place(left)[1], self._place(right)[0]
        brackets = re.sub(r"[^()]", "", self._text[start:end])  # around either side
        closing, opening = brackets.count(")"), brackets.count("(")
        return self._change(left, start, end, kind, f"{')' * closing}{instead}{'(' * opening}")

    def _change(self, node: ast.AST, start: int, end: int, kind: str, instead: str) -> Change:
        return Change(self._name, node.lineno, kind, start, end, instead)  # type: ignore[attr-defined]  # as above


def _is_simple(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign)


def _waits(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Await)
