"""Running a batch: its variables, its control flow, one answer after another.

Invariant: whatever needs no server (whole numbers, values as they are) is worked out here; everything else is asked for
in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from tests.database.sqlserver.standin import batches
from tests.database.sqlserver.standin.faults import GOES_ON, Fault
from tests.database.sqlserver.standin.machine import Answer, Machine
from tests.database.sqlserver.standin.rewriting import Rewritten
from tests.database.sqlserver.standin.tokens import Token, split, text_of, tokens, unquoted
from tests.database.sqlserver.standin.types import NUMBERS, value_type

_SIMPLE = re.compile(r"[\d\s&|+\-*=<>()]+")


def run(machine: Machine, text: str, parameters: Sequence[object]) -> list[Answer]:
    """Run a batch in a session and return its answers; raises Gone when the connection is lost."""
    batch = _Batch(machine, {f"?{place}": value for place, value in enumerate(parameters, 1)})
    batch.run(text)
    if machine.doomed:
        machine.roll_back()
        end = Fault(3998, "Uncommittable transaction is detected at the end of the batch.")
        batch.answers.append(_failed(end))
    return batch.answers


_TEXTS = frozenset({"db_name", "version", "suser_sname"})


class _Batch:
    """One batch: its variables, its answers, and where it is."""

    def __init__(self, machine: Machine, parameters: Mapping[str, object]) -> None:
        self._machine = machine
        self.answers = list[Answer]()
        self._values = {f"v_mark_{name[1:]}": value for name, value in parameters.items()}
        self._types = {name: _type_of(value) for name, value in self._values.items()}
        self._rowcount = 0
        self._nocount = 0
        self._fault: Fault | None = None
        self._tries = 0

    def run(self, text: str) -> None:
        try:
            self._run(batches.parse(text))
        except SyntaxError as error:
            self.answers.append(_failed(Fault(102, str(error))))
        except Fault as fault:
            self.answers.append(_failed(fault))

    def _run(self, statement: batches.Statement) -> None:
        try:
            self._do(statement)
        except Fault as fault:
            if isinstance(statement, batches.Block | batches.If | batches.Try):
                raise
            self._machine.judge(fault, in_try=self._tries > 0)
            self._fault = fault
            if self._tries or fault.number not in GOES_ON or self._machine.xact_abort:
                raise
            self.answers.append(_failed(fault))

    def _do(self, statement: batches.Statement) -> None:  # noqa: C901, PLR0912 - one case for each kind
        machine = self._machine
        match statement:
            case batches.Block(statements):
                for each in statements:
                    self._run(each)
            case batches.If(condition, then, otherwise):
                if self._holds(condition):
                    self._run(then)
                elif otherwise is not None:
                    self._run(otherwise)
            case batches.Try(body, catch):
                self._try(body, catch)
            case batches.Declare(variables):
                for variable in variables:
                    self._declare(variable)
            case batches.Assign(name, value):
                self._assign(name, value)
            case batches.Option(words):
                change = machine.set_option(words)
                self._nocount = max(0, change) if change else self._nocount
            case batches.Transaction("begin", _):
                machine.begin()
            case batches.Transaction("commit", _):
                machine.commit()
            case batches.Transaction("rollback", name):
                machine.roll_back(name)
            case batches.Transaction("save", name):
                machine.save(name)
            case batches.Execute():
                self._execute(statement)
            case batches.Other(verb, rest):
                self._other(verb, rest)
            case batches.Query(parts):
                self._query(parts)

    def _try(self, body: batches.Block, catch: batches.Block) -> None:
        self._tries += 1
        try:
            self._run(body)
        except Fault as fault:
            self._tries -= 1
            self._fault = fault
            self._run(catch)
        else:
            self._tries -= 1

    # --- variables

    def _declare(self, variable: batches.Variable) -> None:
        key = f"v_{variable.name[1:]}"
        self._types[key] = value_type(variable.type)
        self._values[key] = None
        if variable.value is not None:
            self._assign(variable.name, variable.value)

    def _assign(self, name: str, value: list[Token]) -> None:
        key = f"v_{name[1:]}"
        if key not in self._types:
            raise Fault(137, f'Must declare the scalar variable "{name}".')
        self._values[key] = self._evaluate(value, self._types[key])

    def _evaluate(self, parts: list[Token], kind: str) -> object:
        known, value = self._quickly(parts, kind)
        if known:
            return value
        expression = [
            Token("word", "select"),
            Token("word", "cast"),
            Token("symbol", "("),
            *parts,
            Token("word", "as"),
            *tokens(_tsql(kind)),
            Token("symbol", ")"),
        ]
        row = self._rows(expression)[0]
        return row[0]

    def _quickly(self, parts: list[Token], kind: str) -> tuple[bool, object]:
        """Work out what needs no server: a value as it is, arithmetic of whole numbers."""
        facts = self._all_values()
        if len(parts) == 1 and parts[0].kind == "variable":
            value = facts.get(_key(parts[0]))
            if (
                value is None
                or (isinstance(value, str) and kind == "text")
                or (isinstance(value, bytes) and kind == "bytea")
            ):
                return _key(parts[0]) in facts, value
        if kind not in NUMBERS or not all(part.kind in {"variable", "number", "symbol"} for part in parts):
            return False, None
        words = [str(facts.get(_key(part), "?")) if part.kind == "variable" else part.text for part in parts]
        text = " ".join(words)
        if not _SIMPLE.fullmatch(text):
            return False, None
        text = re.sub(r"(?<![<>])=", "==", text.replace("<>", "!="))
        return True, int(eval(text, {}))  # noqa: S307 - digits and operators only

    def _holds(self, condition: list[Token]) -> bool:
        known, value = self._quickly(condition, "integer")
        if known:
            return bool(value)
        case = [*tokens("select case when"), *condition, *tokens("then 1 else 0 end")]
        return bool(self._rows(case)[0][0])

    def _all_values(self) -> dict[str, object]:
        facts = {f"g_{name}": value for name, value in self._machine.facts.items()}
        options = self._machine.facts["options"]
        assert isinstance(options, int)
        return (
            self._values
            | facts
            | {
                "g_options": options | self._nocount,
                "g_rowcount": self._rowcount,
            }
        )

    # --- queries

    def _rows(self, parts: list[Token]) -> list[tuple[Any, ...]]:
        cursor = self._send(parts)
        return cursor.fetchall()

    def _send(self, parts: list[Token]) -> psycopg.Cursor[Any]:
        values = self._all_values()
        types = self._types | {
            name: "text" if name[2:] in _TEXTS else "bigint" for name in values if name.startswith("g_")
        }
        rewritten = self._machine.rewritten(parts, types)
        looks = "FOR KEY SHARE" in rewritten.text
        with self._machine.guarded("look" if looks else " ".join(part.word for part in parts[:3])):
            return self._machine.execute(rewritten, values)

    def _query(self, parts: list[Token]) -> None:
        cursor = self._send(parts)
        self._rowcount = max(cursor.rowcount, 0)
        if cursor.description is not None:
            names = [column.name.lower() for column in cursor.description]
            self.answers.append(Answer(names, cursor.fetchall(), cursor.rowcount))
        elif not self._nocount and parts[0].word in {"insert", "update", "delete"}:
            self.answers.append(Answer(None, [], cursor.rowcount))

    def _execute(self, statement: batches.Execute) -> None:
        arguments = {
            part[0].text.lower(): part[2:]
            for part in statement.arguments
            if len(part) > 2 and part[1].word == "="
        }
        match statement.procedure:
            case "":
                self._nested(str(self._evaluate(statement.arguments[0], "text")), [])
            case "sp_executesql":
                self._nested(str(self._evaluate(statement.arguments[0], "text")), statement.arguments[1:])
            case "sp_prepare":
                handle, kinds, text = (argument[0] for argument in statement.arguments)
                self._machine.prepared.append((unquoted(kinds.text), unquoted(text.text)))
                self._values[_key(handle)] = len(self._machine.prepared) - 1
            case "sp_execute":
                declared, prepared = self._machine.prepared[int(statement.arguments[0][0].text)]
                self._nested(prepared, _named(declared, statement.arguments[1:]))
            case "sp_getapplock":
                self._lock(arguments, statement.result)
            case procedure:
                raise Fault(2812, f"Could not find stored procedure '{procedure}'.")

    def _nested(self, text: str, arguments: list[list[Token]]) -> None:
        inner = _Batch(self._machine, {})
        inner._nocount, inner._tries = self._nocount, self._tries  # a `try` catches what fails in it
        if arguments:
            inner._run(batches.parse(f"declare {unquoted(arguments[0][0].text)}"))
        for argument in arguments[1:]:
            key = f"v_{argument[0].text.lower()[1:]}"
            inner._values[key] = self._evaluate(argument[2:], inner._types[key])
        try:
            inner._run(batches.parse(text))
        finally:
            self.answers += inner.answers
            self._rowcount = inner._rowcount

    def _lock(self, arguments: Mapping[str, list[Token]], result: str | None) -> None:
        owner = self._text(arguments.get("@lockowner")) or "transaction"
        if owner.lower() == "transaction" and self._machine.trancount == 0:
            raise Fault(
                15000,
                "You attempted to acquire a transactional application lock without an active transaction.",
            )
        scope = "_xact" if owner.lower() == "transaction" else ""
        timeout = int(self._text(arguments.get("@locktimeout")) or -1)
        kind = f"pg_try_advisory{scope}_lock" if timeout == 0 else f"pg_advisory{scope}_lock"
        if owner.lower() == "session":
            self._remember(self._text(arguments["@resource"]))
        text = f"select {kind}(hashtextextended(%(resource)s, 6))"
        with self._machine.guarded("exec"):
            cursor = self._machine.execute(
                Rewritten(text, (), returns_rows=True), {"resource": self._text(arguments["@resource"])}
            )
        (row,) = cursor.fetchall()
        self._machine.refusals += row[0] is False
        assert self._machine.refusals < 5, "Babelfish ends at the fifth lock that it refuses a session"
        if result is not None:
            self._values[f"v_{result[1:]}"] = -1 if row[0] is False else 0

    def _remember(self, resource: str | None) -> None:
        """Note what a lock is called, for sys.dm_tran_locks."""
        text = (
            "insert into sys.applocks values (hashtextextended(%(resource)s, 6), %(resource)s) "
            "on conflict do nothing returning key"
        )
        self._machine.execute(Rewritten(text, (), returns_rows=True), {"resource": resource})

    def _text(self, parts: list[Token] | None) -> str | None:
        if parts is None:
            return None
        if parts[0].kind == "word" or len(parts) == 2:
            return text_of(parts).replace(" ", "")
        if parts[0].kind in {"string", "number"}:
            return unquoted(parts[0].text)
        return str(self._values[_key(parts[0])])

    def _other(self, verb: str, rest: list[Token]) -> None:
        if verb == "kill":
            self._ask(f"pg_terminate_backend({int(rest[0].text)})")
        elif rest:
            raise Fault(50000, "A text of the batch's own.")
        else:
            assert self._fault is not None
            raise self._fault

    def _ask(self, function: str) -> None:
        with self._machine.guarded("select"):
            self._machine.execute(Rewritten(f"select {function}", (), returns_rows=True), {})


def _key(part: Token) -> str:
    name = part.text.lower()
    return f"g_{name[2:]}" if name.startswith("@@") else f"v_{name[1:].replace('?', 'mark_')}"


def _named(kinds: str, values: list[list[Token]]) -> list[list[Token]]:
    """Return arguments as `sp_executesql` takes them: the declaration, and each value with its name."""
    names = [kind[0] for kind in split(tokens(kinds))]
    declared = [Token("string", "N'" + kinds.replace("'", "''") + "'")]
    return [
        declared,
        *([name, Token("symbol", "="), *value] for name, value in zip(names, values, strict=True)),
    ]


def _type_of(value: object) -> str:
    match value:
        case bytes():
            return "bytea"
        case bool():
            return "smallint"
        case int():
            return "bigint"
        case float():
            return "double precision"
        case _:
            return "text"


def _tsql(kind: str) -> str:
    return {
        "text": "nvarchar(max)",
        "bytea": "varbinary(max)",
        "uuid": "uniqueidentifier",
        "integer": "int",
        "timestamp(3)": "datetime",
        "timestamp(6)": "datetime2",
    }.get(kind, kind)


def _failed(fault: Fault) -> Answer:
    return Answer(None, [], -1, fault)
