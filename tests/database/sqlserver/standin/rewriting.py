"""A query of T-SQL becomes one of PostgreSQL.

Columns are in lower case, as Babelfish gives them back; tables keep their case. A schema is one of PostgreSQL's, and
the catalog is dropped where it is the connection's own; another catalog's schemas are named `catalog:schema`.

Invariant: values are never written into the text: it has a parameter, with a cast to its T-SQL type, for each.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from tests.database.sqlserver.standin.preparing import Prepared, computed_column, prepare
from tests.database.sqlserver.standin.tokens import Token, text_of, tokens, unquoted
from tests.database.sqlserver.standin.types import domain, value_type

_VARIABLE = re.compile(r'"__([vgx])_(\w*)"')
_NAMES = frozenset(["name", "type", "type_desc", "table_name", "table_schema", "column_name", "data_type"])
_TEXTUAL = ("text", "varchar")


class Rewritten(NamedTuple):
    """A query for psycopg, and the domains that must exist before it runs."""

    text: str
    domains: tuple[tuple[str, str], ...]
    returns_rows: bool


def rewrite(parts: list[Token], types: Mapping[str, str], *, catalog: str) -> Rewritten:
    """Rewrite a query whose variables have these PostgreSQL types; raises SyntaxError for what is not understood."""
    return _rewrite(tuple(parts), tuple(sorted(types.items())), catalog)


@lru_cache(maxsize=4096)
def _rewrite(parts: tuple[Token, ...], types: tuple[tuple[str, str], ...], catalog: str) -> Rewritten:
    return _Rewriting(dict(types), catalog).rewrite(list(parts))


class _Rewriting:
    def __init__(self, types: Mapping[str, str], catalog: str) -> None:
        self._types = types
        self._catalog = catalog
        self._domains = dict[str, str]()

    def rewrite(self, parts: list[Token]) -> Rewritten:
        if (computed := computed_column(parts)) is not None:
            return Rewritten(self._computed(*computed), (), returns_rows=False)
        prepared = prepare(parts)
        tree = self._tree(prepared.text)
        text, returns_rows = self._finish(tree, prepared)
        return Rewritten(self._bound(text), tuple(self._domains.items()), returns_rows)

    # --- whole statements

    def _tree(self, text: str) -> exp.Expr:
        try:
            tree = sqlglot.parse_one(text, read="tsql")
        except sqlglot.errors.ParseError as error:
            raise SyntaxError(f"Incorrect syntax: {error}") from error
        if isinstance(tree, exp.Command):
            raise SyntaxError(f"Incorrect syntax near '{text}'.")  # noqa: TRY004 - the type is sqlglot's news
        if isinstance(tree, exp.Create) and tree.kind == "INDEX":
            _rename_index(tree)
        for node in list(tree.walk()):
            self._change(node)
        for comparison in list(tree.find_all(exp.EQ, exp.NEQ)):
            self._ignore_case(comparison)
            _ask_once(comparison)
        for table in list(tree.find_all(exp.Table)):
            self._lock(table)
        return tree

    def _finish(self, tree: exp.Expr, prepared: Prepared) -> tuple[str, bool]:
        text = tree.sql("postgres")
        if isinstance(tree, exp.Create):  # sqlglot keeps the order of NULLs, also where a key has none
            text = text.replace(" NULLS FIRST", "")
        if prepared.output is None:
            return text, isinstance(tree, exp.Query)
        select = self._tree(f"select {prepared.output}")
        assert isinstance(select, exp.Select)
        for column in select.find_all(exp.Column):
            if column.table in {"deleted", "inserted"}:
                column.set("table", None)
        items = ", ".join(item.sql("postgres") for item in select.expressions)
        return f"{text} returning {items}", True

    def _table_name(self, parts: list[Token]) -> str:
        table = sqlglot.parse_one(text_of(parts), read="tsql", into=exp.Table)
        self._change(table)
        for identifier in table.find_all(exp.Identifier):
            identifier.set("quoted", True)  # noqa: FBT003 - sqlglot's way
        return table.sql("postgres")

    def _computed(self, table: list[Token], column: str) -> str:
        """Return what adds a computed column, which is only ever the body as text."""
        return (
            f'alter table {self._table_name(table)} add column "{column.lower()}" sys."nvarchar(max)"'
            " generated always as (encode(body, 'escape')) stored"
        )

    # --- nodes

    def _change(self, node: exp.Expr) -> None:
        match node:
            case exp.Table():
                self._place(node)
            case exp.DataType():
                self._type(node)
            case exp.Add() if self._is_text(node.this) or self._is_text(node.expression):
                node.replace(exp.DPipe(this=node.this, expression=node.expression))
            case exp.Collate():
                node.replace(node.this)
            case exp.CollateColumnConstraint():
                (node.parent or node).pop()
            case exp.Identifier() if not isinstance(node.parent, exp.Table) or node.arg_key == "alias":
                node.set("this", node.this.lower())
                node.set("quoted", True)  # noqa: FBT003 - sqlglot's way
            case exp.Identifier() if not node.args.get("quoted"):
                node.set("this", node.this.lower())
            case _:
                pass

    def _place(self, table: exp.Table) -> None:
        catalog, schema = table.catalog, table.db
        if isinstance(table.this, exp.Identifier) and schema:
            is_own = catalog.lower() in {"", self._catalog.lower()}
            name = schema if schema.lower() not in {"sys", "information_schema", "dbo"} else schema.lower()
            table.set("catalog", None)
            table.set("db", exp.to_identifier(name if is_own else f"{catalog}:{name}", quoted=True))
            table.this.set("quoted", True)  # noqa: FBT003 - sqlglot's way
            if name in {"sys", "information_schema"}:
                table.this.set("this", table.this.this.lower())

    def _type(self, node: exp.DataType) -> None:
        parts = tokens(node.sql("tsql"))
        column = node.parent
        if isinstance(column, exp.ColumnDef) and (name := domain(parts)) is not None:
            self._domains[name] = value_type(parts)
            node.replace(exp.DataType.build(f'sys."{name}"', udt=True, dialect="postgres"))
        else:
            node.replace(exp.DataType.build(value_type(parts), dialect="postgres"))

    def _is_text(self, node: exp.Expr) -> bool:
        match node:
            case exp.Literal():
                return bool(node.is_string)
            case exp.Column():
                found = re.fullmatch("__[vg]_(.*)", node.name)
                return found is not None and self._types.get(node.name[2:], "").startswith(_TEXTUAL)
            case exp.Cast():
                return str(node.to.sql("postgres")).lower().startswith(_TEXTUAL)
            case _:
                return isinstance(node, exp.DPipe | exp.Lower | exp.Upper | exp.Concat)

    def _ignore_case(self, node: exp.Expr) -> None:
        """Compare names of the catalogue as the server does."""
        is_name = isinstance(node.this, exp.Column) and node.this.name.lower() in _NAMES
        if is_name and self._is_text(node.expression):
            node.set("this", exp.Lower(this=node.this.copy()))
            node.set("expression", exp.Lower(this=node.expression.copy()))

    def _lock(self, table: exp.Table) -> None:
        hints = {hint.name.lower() for each in table.args.get("hints") or [] for hint in each.expressions}
        table.set("hints", None)
        if not hints:
            return
        select = table.find_ancestor(exp.Select)
        if select is None or select.find(exp.AggFunc):
            return
        source = select.args.get("from_")
        if source is None or source.this is not table:
            return
        if hints & {"updlock", "xlock"}:
            _add_lock(select, key_share=False, wait="readpast" not in hints)
        elif "readpast" in hints:
            _add_lock(select, key_share=True, wait=False)

    def _bound(self, text: str) -> str:
        def parameter(match: re.Match[str]) -> str:
            name = f"{match[1]}_{match[2]}"
            if match[1] == "x":
                return f"'\\x{match[2]}'::bytea"
            if name not in self._types:
                raise SyntaxError(f'Must declare the scalar variable "@{match[2]}".')
            return f"cast(%({name})s as {self._types[name]})"

        return _VARIABLE.sub(parameter, text.replace("%", "%%"))


def _add_lock(select: exp.Select, *, key_share: bool, wait: bool) -> None:
    """Lock rows so that receivers pass over one another's, and a look is in nobody's way."""
    select.set("locks", [exp.Lock(update=not key_share, key=True, wait=None if wait else False)])


def _ask_once(comparison: exp.Binary) -> None:
    """Have `object_id(…)` looked up once for the statement; as it is, PostgreSQL would ask for each row."""
    call = comparison.expression
    if isinstance(call, exp.Dot) and call.expression.name.lower() == "object_id":
        call.replace(exp.select(call.copy()).subquery())


def _rename_index(tree: exp.Create) -> None:
    """Make an index's name, its table's own in T-SQL, one that is the schema's, as PostgreSQL wants it."""
    index = tree.this
    table = index.args["table"]
    mark = hashlib.md5(table.sql().encode(), usedforsecurity=False).hexdigest()[:8]
    name = index.this.name if isinstance(index.this, exp.Identifier) else str(index.this)
    index.set("this", exp.to_identifier(f"{mark}|{unquoted(name)}", quoted=True))
