"""Every T-SQL file: sqlglot's T-SQL dialect parses it, it says what it locks, it keeps to what Babelfish takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from rowbus.database.statements import source
from tests.fixtures.every import every
from tests.fixtures.sql_files import PACKAGE, files_for, header_of, is_loaded, text_of

FILES = files_for("sqlserver")
LONGEST_LINE = 125
NOT_ON_BABELFISH = re.compile(r"\bmerge\b|\bwith\s+\w+\s+as\s*\(|\bopenjson\b|\btry_convert\b", re.IGNORECASE)
NOT_AROUND_OUTPUT = re.compile(r"\b(?:cast|convert|isnull|coalesce)\s*\(|\bcase\b", re.IGNORECASE)
"""Babelfish does not find `deleted.x` in these; it does in operators and in the arguments of functions."""
TRANSACTION_CONTROL = re.compile(r"\b(?:begin|commit|rollback|save)\s+tran", re.IGNORECASE)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Sign, exp.Abs)
NULLABLE = re.compile(r"declare @(\w+) [^;=]*=[^;]*\bnullif\(")
"""A variable that is NULL where its value is empty."""
STATEMENT = re.compile(
    r"^(?:declare|set|select|insert|update|delete|create|drop|grant|if|exec)\b", re.MULTILINE
)


def body(path: str) -> str:
    return source(path)


def plain(path: str) -> str:
    """Give a file's statements with ordinary names in place of sqlcmd's."""
    return re.sub(r"\[\$\((\w+)\)\]", r"[\1]", body(path))


def test_there_are_files() -> None:
    assert len(FILES) > 60


@every("path", FILES)
def test_sqlglot_parses_it(path: str) -> None:
    trees = sqlglot.parse(plain(path), read="tsql", error_level=sqlglot.ErrorLevel.RAISE)

    assert trees
    assert not any(isinstance(node, sqlglot.exp.Command) for tree in trees if tree for node in tree.walk())


@every("path", FILES)
def test_its_header_says_what_it_locks_or_why_it_does_not_wait_and_what_it_returns(path: str) -> None:
    header = header_of(path)

    assert text_of(path).startswith("-- ")
    assert re.search(r"lock|wait", header, re.IGNORECASE), header
    assert re.search(r"return", header, re.IGNORECASE), header


@every("path", [path for path in FILES if "readpast" in body(path)])
def test_where_it_passes_over_rows_its_header_says_why_it_does_not_wait_on_sql_server(path: str) -> None:
    assert re.search(r"never wait|passes? over|never waiting", header_of(path), re.IGNORECASE), header_of(
        path
    )


@every("path", FILES)
def test_it_keeps_to_the_rules_of_the_loader(path: str) -> None:
    text = body(path)

    assert "?" not in text, "the driver's mark"
    assert not NOT_ON_BABELFISH.search(text)
    assert not TRANSACTION_CONTROL.search(text), "transaction control is its own batch"
    assert max(map(len, text_of(path).splitlines())) <= LONGEST_LINE
    assert not re.search(r"'\$\(", text.replace("N'$(", "")), "values are nvarchar"
    names = re.findall(r"N'\$\((\w+)\)'", text)
    assert len(names) == len(set(names)), "each value appears once"


@every("path", [path for path in FILES if re.search(r"^output\b", body(path), re.MULTILINE)])
def test_its_output_clause_is_one_that_babelfish_reads(path: str) -> None:
    clauses = re.findall(r"^output\b.*?(?=^\w)", body(path), re.MULTILINE | re.DOTALL)

    assert clauses
    assert not any(NOT_AROUND_OUTPUT.search(clause) for clause in clauses)


def cases_of(text: str) -> Iterator[exp.Case]:
    for tree in sqlglot.parse(text, read="tsql"):
        if tree is not None:
            yield from tree.find_all(exp.Case)


def null_faults(text: str) -> list[str]:
    """Find each `case` whose answer depends on what an engine makes of arithmetic on NULL.

    Babelfish gives other answers than SQL Server for `case sign(1 + null) …`: so a `case` compares no computed value,
    and computes with what may be NULL only beside a condition that says `is null` or `is not null` of a variable.
    """
    nullable, found = set(NULLABLE.findall(text)), list[str]()
    for case in cases_of(text):
        branches = case.args["ifs"]
        conditions = [each.this for each in branches if not isinstance(each.this, exp.Exists)]
        if case.this is not None or any(list(each.find_all(*ARITHMETIC)) for each in conditions):
            found.append(f"compares a computed value: {case.sql('tsql')}")
        asks = any(list(each.find_all(exp.Is)) for each in conditions)
        results = [branch.args["true"] for branch in branches] + [case.args.get("default")]
        computed = {
            parameter.name
            for result in results
            if result is not None
            for each in result.find_all(*ARITHMETIC, exp.DateAdd, exp.Anonymous)
            for parameter in each.find_all(exp.Parameter)
        }
        if not asks and computed & nullable:
            found.append(f"computes with NULL: {case.sql('tsql')}")
    return found


@every("path", [path for path in FILES if re.search(r"\bcase\b", body(path))])
def test_no_case_depends_on_arithmetic_with_null(path: str) -> None:
    assert null_faults(plain(path)) == []


@every(
    "text",
    [
        "select case sign(1 + null) when 1 then 1 else 0 end",
        "select case when size - 1 > 0 then 1 end from t",
        "select case when -size < 0 then 1 end from t",
        "declare @ms int = cast(nullif(N'', N'') as int); select case when 1 = 1 then dateadd(ms, @ms, now()) end",
    ],
)
def test_a_case_that_does_is_found(text: str) -> None:
    assert null_faults(text)


@every("path", [path for path in FILES if "set nocount on" in body(path)])
def test_it_leaves_nocount_as_it_found_it(path: str) -> None:
    text = body(path)

    assert text.startswith("declare @nocount int = @@options & 512;\nset nocount on;")
    assert text.endswith("if @nocount = 0 set nocount off;")


@every("path", FILES)
def test_what_changes_rows_turns_nocount_on(path: str) -> None:
    is_a_change = re.search(r"^(?:insert|update|delete)\b", body(path), re.MULTILINE)

    assert not is_a_change or "nocount" in body(path) or path.rpartition("/")[2].startswith("copy")


@every("path", FILES)
def test_some_code_loads_it(path: str) -> None:
    stem = path.removesuffix(".sql").rpartition("/")[2]
    adapted = re.sub(r"_without_(?:recoverable|legacy)$", "", stem)

    assert is_loaded(adapted), path


@every(
    "path",
    [
        path
        for path in FILES
        if re.search(r"queues/sql/sqlserver/(?:receive|send|copy)|delayed/sql/sqlserver/move", path)
        and "_without_" in path
    ],
)
def test_the_twin_for_other_tables_differs_in_the_columns_alone(path: str) -> None:
    twin = re.sub(r"_without_\w+?(?=\.sql)", "", path)
    columns = r"Recoverable, |\b1, |\s+1 as Recoverable,|,\s+deleted\.(?:CorrelationId|ReplyToAddress) as \w+"

    assert re.sub(columns, "", body(twin)) == body(path)


def test_no_statement_is_in_python() -> None:
    modules = [*PACKAGE.rglob("sqlserver*.py"), *PACKAGE.rglob("sqlserver/*.py")]

    assert modules
    for module in modules:
        assert not re.search(r'"(?:select|insert into|delete|update) ', module.read_text("utf-8")), module
