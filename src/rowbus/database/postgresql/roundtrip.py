"""Several statements in one round trip: libpq's pipeline mode, without cursors; their parameters, and their plans.

A receiving slot commits, begins and receives again for every message. Three cursors and three waits cost it more than
the server's work; this sends all three, then waits once (docs/performance.md has the figures). Parameters go as text,
bytes as they are; every parameter in our SQL files is cast, so the server knows the types. Lists of texts and of bytes
go in the binary form, which has lengths and no quotes: headers are full of quotes, which both sides would look at one
by one. It names the type of the elements, so it is for texts that the statement casts to `text[]` only; what is cast to
another type goes as text, which the server reads as that type.

A plan is made and given up within a pipeline, where an error skips all that comes after it. So each change is noted as
it is sent, and those that the server did not come to are undone, the last first. Neither a rollback nor an error undoes
the others: prepared statements belong to the session, not to a transaction.

A queue is mostly empty when it is vacuumed and analysed. The server then takes it for a table of no rows on many pages.
It reads and sorts all of a backlog that comes later, for each message, until it is analysed again. So the settings of
`plan_by_index.sql` surround such a statement while the server plans it, and no statement of a handler.

The server plans a prepared statement anew for each of the first five executions. With the sixth it makes a plan for any
values, and keeps it if it is cheaper than those before, planning included. So planning is made dear in the first five.

Invariants: statements after a failed one do not run, and the answers come back in the order of the statements, one
each. A plan is known here if and only if the server has it; where that is in doubt, `is_doubtful` says so. What is sent
around a statement leaves every setting as it was, and a failure is answered as the statement's. The server reads what
psycopg's own dumpers would have sent.
Source: PostgreSQL documentation, "libpq: pipeline mode"; "PREPARE", notes; "DEALLOCATE"; "plan_cache_mode"; "Arrays",
input and output syntax; the binary form is that of `array_recv`.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from itertools import chain, islice
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from psycopg import errors
from psycopg.adapt import PyFormat
from psycopg.adapt import Transformer as DriverTransformer
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.waiting import Wait

from rowbus.database.postgresql.readiness import complete
from rowbus.database.statements import Statement, each, load, no_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import psycopg
    from psycopg.abc import PQGen, Transformer
    from psycopg.pq.abc import PGresult

    from rowbus.database.statements import Query, Row, Rows

T = TypeVar("T")

STALE_AFTER = 2.0
"""Seconds after which a plan is made anew. The server plans for the size of a queue at that time and keeps the plan
until the table is analysed: a scan and a sort, right for an empty queue, would meet a burst of 40,000 messages."""

MOST_PLANS = 200
"""Plans of one connection: each queue that is sent to has one or two, and takes memory of the server too."""

UNKNOWN_PLAN = "26000"
_PLAN_EXISTS = "42P05"
_RESULT_CHANGED = "0A000"  # "cached plan must not change result type": the table was altered


@dataclass(slots=True)
class Plan:
    """A prepared statement: its name on the server, when it was made, its executions if it is planned by an index."""

    name: bytes
    made: float
    executions: int = 0


class Change(NamedTuple):
    """One command about a statement's plan: to give up the one `before`, or, that being None, to make one."""

    text: bytes
    name: bytes
    before: Plan | None

    def was_needless(self, result: PGresult) -> bool:
        """Return whether the server refused a plan that it already has, or to give up one that it no longer has."""
        return _state(result) == (_PLAN_EXISTS if self.before is None else UNKNOWN_PLAN)


class Plans:
    """The plans of one connection, by the text of their statement. Not for concurrent use."""

    def __init__(self) -> None:
        """Begin with none."""
        self._plans: dict[bytes, Plan] = {}
        self.is_doubtful = False
        """Whether some plans may be gone from the server."""

    def doubt(self) -> None:
        """Note that plans may be gone."""
        self.is_doubtful = bool(self._plans)

    def keep(self, names: Collection[bytes]) -> None:
        """Forget the plans that the server does not name; the others are there."""
        self._plans = {text: plan for text, plan in self._plans.items() if plan.name in names}
        self.is_doubtful = False

    def find(self, query: Query) -> Plan | None:
        """Return a statement's plan, fresh or not."""
        return self._plans.get(query.native)

    def fresh(self, query: Query) -> Plan | None:
        """Return a statement's plan unless it is to be made anew; one without values never ages."""
        plan = self._plans.get(query.native)
        if plan is None or plan.made == -inf:
            return None
        return plan if not query.names or monotonic() - plan.made <= STALE_AFTER else None

    def use(self, query: Query, *, can_plan: bool) -> tuple[Plan | None, Sequence[Change]]:
        """Return a statement's plan, and what is to be sent before for it to be fresh, if anything can be planned now.

        None where there is none to be had.
        """
        if not can_plan:
            return None if self.is_doubtful else self.find(query), ()
        plan = self.fresh(query)
        return (plan, ()) if plan is not None else self._renew(query)

    def _renew(self, query: Query) -> tuple[Plan, list[Change]]:
        """Make a statement's plan, or make it anew; return it, and what is to be sent for that."""
        text, changes = query.native, list[Change]()
        leaving = text if text in self._plans or len(self._plans) < MOST_PLANS else next(iter(self._plans))
        if (old := self._plans.pop(leaving, None)) is not None:  # the statement's own, or the eldest
            changes.append(Change(leaving, old.name, old))
        # Named after its text: should a pooler mix sessions up, a name still means the same statement.
        name = b"rowbus_" + hashlib.md5(text, usedforsecurity=False).hexdigest().encode()
        plan = self._plans[text] = Plan(name, monotonic())
        return plan, [*changes, Change(text, name, None)]

    def undo(self, changes: Iterable[tuple[Change, PGresult]]) -> None:
        """Undo the changes that the server did not come to, given all of a pipeline with their answers, in order."""
        for change, result in reversed([*changes]):
            if result.status == ExecStatus.COMMAND_OK or change.was_needless(result):
                continue
            self._plans.pop(change.text, None)
            if change.before is not None:
                self._plans[change.text] = change.before

    def learn(self, query: Query, result: PGresult) -> None:
        """Learn from a statement that failed what that says about plans."""
        state = _state(result)
        if state == UNKNOWN_PLAN:  # DEALLOCATE or DISCARD was run behind our back
            self.doubt()
        elif state == _RESULT_CHANGED and (plan := self._plans.get(query.native)) is not None:
            plan.made = -inf


def _state(result: PGresult) -> str | None:
    """Return the SQLSTATE of an error; None for what ran, and for what was skipped after an error."""
    return errors.error_from_result(result).sqlstate if result.status == ExecStatus.FATAL_ERROR else None


PLANNED_EACH_TIME: Final = 5
"""Executions of a prepared statement that the server plans each for its own values."""

SETTLED: Final = PLANNED_EACH_TIME + 1
"""Executions after which it keeps a plan for any values."""

_DEAR: Final = "10000"  # a thousand is what the server reckons for planning a table; the default is 0.0025
_PLAN_BY_INDEX: Final = load(
    "database/sql/postgresql/plan_by_index.sql", failing="Failed to have statements planned by an index"
)
_AFTER: Final = Statement(
    load("database/sql/postgresql/plan_freely.sql", failing="Failed to have statements planned as before"),
    {},
    no_rows,
)


_PLANS: Statement[list[Row]] = Statement(
    load(
        "database/sql/postgresql/plans.sql",
        failing="Failed to look for the session's prepared statements",
        prepare=False,
    ),
    {},
    each(tuple),
)
_SUCCEEDED = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})


class _Request(NamedTuple):
    """One statement under way, and what was sent before it to have its plan on the server."""

    statement: Statement[object]
    changes: Sequence[Change]


class Answer:
    """The server's answer to one statement."""

    __slots__ = ("_result", "_transformer", "succeeded")

    def __init__(self, result: PGresult, transformer: Transformer) -> None:
        """Wrap a result; its rows are read when asked for."""
        self._result = result
        self._transformer = transformer
        self.succeeded = result.status in _SUCCEEDED
        """Whether the statement ran; false also for those after a failed one."""

    @property
    def error(self) -> errors.Error:
        """The driver's error of a failed statement."""
        return errors.error_from_result(self._result)

    @property
    def tag(self) -> bytes | None:
        """The command tag, such as COMMIT."""
        return self._result.command_status

    def read(self, statement: Statement[T]) -> T:
        """Return what its statement makes of the rows, which have Python values, and of how many it touched."""
        result = self._result
        rows: Rows = ()
        if result.ntuples:
            self._transformer.set_pgresult(result)
            rows = self._transformer.load_rows(0, result.ntuples, tuple)
        return statement.decode(rows, result.command_tuples or 0)


class Roundtrips:
    """Runs lists of statements on one connection; keeps their plans on the server unless `prepare` is false."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], *, prepare: bool = True) -> None:
        """Use the connection in the state it is in. Not for concurrent use."""
        self._connection = connection
        self._pgconn = connection.pgconn
        self._transformer: Transformer = DriverTransformer(connection)
        self._prepare = prepare
        self._plans = Plans()

    async def run(self, statements: Sequence[Statement[object]]) -> list[Answer]:
        """Run the statements and return their answers, in order. Raises the driver's error if the connection breaks."""
        async with self._connection.lock:
            results = await complete(self._connection, self._exchange(statements))
        return [Answer(result, self._transformer) for result in results]

    def doubt_plans(self) -> None:
        """Ask the server which plans it has before any is used again: some, or all, may be gone."""
        self._plans.doubt()

    def _ask_which_plans_are_there(self) -> PQGen[None]:
        if self._is_spoilt:
            return
        (result,) = self._settle(self._begin((_PLANS,)), (yield from self._end()))
        answer = Answer(result, self._transformer)
        if not answer.succeeded:
            raise answer.error
        self._plans.keep({name.encode() for (name,) in answer.read(_PLANS)})

    @property
    def _is_spoilt(self) -> bool:
        """Whether the transaction takes nothing but its end: no plan can be made or given up in it."""
        return self._pgconn.transaction_status == TransactionStatus.INERROR

    def together(
        self, statements: Sequence[Statement[object]], send: Callable[[], object] = lambda: None
    ) -> PQGen[list[PGresult]]:
        """Run statements, and after them what `send` sends, in one round trip; return the answers to the latter.

        Raises the driver's error for the first of the statements that failed; what comes after it did not run.
        """
        if self._plans.is_doubtful:
            yield from self._ask_which_plans_are_there()
        sent = self._begin(statements)
        send()
        results = yield from self._end()
        count = sum(len(each.changes) + 1 for each in sent)
        for result in self._settle(sent, results[:count]):
            if result.status not in _SUCCEEDED:
                raise errors.error_from_result(result)
        return results[count:]

    def _exchange(self, statements: Sequence[Statement[object]]) -> PQGen[list[PGresult]]:
        if self._plans.is_doubtful:
            yield from self._ask_which_plans_are_there()
        parts = [self._surrounded(each) if each.query.by_index else (each,) for each in statements]
        whole = [*chain.from_iterable(parts)]
        settled = self._settle(self._begin(whole), (yield from self._end()))
        if len(whole) == len(parts):
            return settled
        answers = iter(settled)
        return [self._answer(part, [*islice(answers, len(part))]) for part in parts]

    def _begin(self, statements: Sequence[Statement[object]]) -> list[_Request]:
        """Begin a pipeline with these statements."""
        # May raise, so before the pipeline.
        encoded = [encode(statement, self._transformer) for statement in statements]
        can_plan = self._prepare and not self._is_spoilt and not self._plans.is_doubtful
        self._pgconn.enter_pipeline_mode()
        return [self._send(*each, can_plan=can_plan) for each in zip(statements, encoded, strict=True)]

    def _surrounded(self, statement: Statement[object]) -> Sequence[Statement[object]]:
        """Return what is sent for a statement that the server is to plan by an index: itself, and what has it do so."""
        query = statement.query
        if self._is_spoilt:
            return (statement,)
        keeps = self._prepare and query.prepare
        plan = self._plans.fresh(query) if keeps else None
        executions = 0 if plan is None else plan.executions
        if executions >= SETTLED:
            return (statement,)
        cost = _DEAR if keeps and executions < PLANNED_EACH_TIME else None
        return (Statement(_PLAN_BY_INDEX, {"operator_cost": cost}, no_rows), statement, _AFTER)

    def _answer(self, part: Sequence[Statement[object]], answers: Sequence[PGresult]) -> PGresult:
        """Return the one answer to what was sent for a statement: the first failure, else the statement's own."""
        if len(part) == 1:
            return answers[0]
        own = len(part) // 2
        failed = next((answer for answer in answers if answer.status not in _SUCCEEDED), None)
        if failed is None and (plan := self._plans.find(part[own].query)) is not None:
            plan.executions += 1
        return failed or answers[own]

    def _end(self) -> PQGen[list[PGresult]]:
        """Have the server run the pipeline, and return all answers."""
        pgconn = self._pgconn
        pgconn.pipeline_sync()
        while pgconn.flush():
            yield Wait.W
        results: list[PGresult] = []
        while True:
            while pgconn.is_busy():
                yield Wait.R
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                pgconn.exit_pipeline_mode()
                return results
            results.append(result)

    def _send(self, statement: Statement[object], parameters: Parameters, *, can_plan: bool) -> _Request:
        """Queue one statement, and what prepares it if need be."""
        query = statement.query
        values, formats = parameters
        plan, changes = self._plans.use(query, can_plan=can_plan) if query.prepare else (None, ())
        for change in changes:
            self._send_change(change)
        if plan is None:
            self._pgconn.send_query_params(query.native, values, None, formats, Format.BINARY)
        else:
            self._pgconn.send_query_prepared(plan.name, values, formats, Format.BINARY)
        return _Request(statement, changes)

    def _send_change(self, change: Change) -> None:
        if change.before is None:
            self._pgconn.send_prepare(change.name, change.text)
        else:
            self._pgconn.send_query_params(b"deallocate " + change.name, None)

    def _settle(self, sent: Sequence[_Request], results: Sequence[PGresult]) -> list[PGresult]:
        """Return one result for each statement, and note what became of plans.

        A plan that could not be made, or given up, is its statement's failure. So is, for the last statement, what
        comes after all answers: the refusal of the commit that the end of the pipeline is, outside of a transaction.
        """
        following = iter(results)
        changes: list[tuple[Change, PGresult]] = []
        answers: list[PGresult] = []
        for request in sent:
            failed = None
            for change in request.changes:
                result = next(following)
                changes.append((change, result))
                if failed is None and result.status != ExecStatus.COMMAND_OK:
                    failed = result
            answer = next(following)
            answers.append(failed or answer)
        # What follows a failure, such as the connection's end, says less.
        if answers[-1].status in _SUCCEEDED:
            answers[-1] = next(following, answers[-1])
        if changes:
            self._plans.undo(changes)
        for request, answer in zip(sent, answers, strict=True):
            if answer.status == ExecStatus.FATAL_ERROR:
                self._plans.learn(request.statement.query, answer)
        return answers


# ------------------------------------------------------------------------------------------------------- parameters

Parameters = tuple["list[bytes | None] | None", "list[Format] | None"]
"""Values and their formats, None for a statement without any."""

_TEXTS: Final = frozenset({str, type(None)})
_BYTES: Final = frozenset({bytes, type(None)})
_HEADER: Final = struct.Struct(
    "!iiIii"
)  # dimensions, whether there are nulls, type of elements, length, lower bound
_LENGTH: Final = struct.Struct("!i")
_BYTEA: Final = 17  # as pg_type has it
_TEXT: Final = 25
_NULL: Final = _LENGTH.pack(-1)
_HOLDS_NUL: Final = "PostgreSQL's text cannot hold the character NUL"


def encode(statement: Statement[object], transformer: Transformer) -> Parameters:
    """Return a statement's values in their order; raises psycopg's errors for what cannot be sent."""
    names = statement.query.names
    if not names:
        return None, None
    values: list[bytes | None] = []
    formats: list[Format] = []
    for name in names:
        value = statement.parameters[name]
        form = Format.TEXT
        if value is None:
            values.append(None)
        elif (plain := _PLAIN.get(type(value))) is not None:
            values.append(plain(value))
        elif isinstance(value, bytes):
            values.append(value)
            form = Format.BINARY
        elif (array := _array(value, transformer, is_text=name in statement.query.text_lists)) is not None:
            values.append(array[0])
            form = array[1]
        else:
            (dumped,) = transformer.dump_sequence([value], [PyFormat.TEXT])
            values.append(None if dumped is None else bytes(dumped))
        formats.append(form)
    return values, formats


def _array(value: object, transformer: Transformer, *, is_text: bool) -> tuple[bytes, Format] | None:
    """Return a list, with nulls or without, in the form that is quick to write; None: one that only the driver writes.

    `is_text` says that the statement takes a list of texts as such, which it may cast: so a NULL is one in any session.
    """
    if not isinstance(value, list):
        return None
    values = cast("Sequence[Any]", value)
    types = set(map(type, values))
    if types <= _TEXTS:
        if is_text:
            return _elements(_TEXT, _encoded(values)), Format.BINARY
        return _texts(values), Format.TEXT
    if types <= _BYTES:
        return _elements(_BYTEA, values), Format.BINARY
    if is_text:
        dumped = transformer.dump_sequence(values, [PyFormat.TEXT] * len(values))
        return _elements(_TEXT, [None if one is None else bytes(one) for one in dumped]), Format.BINARY
    return None


def _texts(values: Sequence[str | None]) -> bytes:
    """Quote every element; the server reads it as the type that the statement names."""
    return _text(f"{{{','.join(map(_quoted, values))}}}")


def _quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _elements(kind: int, values: Sequence[bytes | None]) -> bytes:
    """Write an array of one dimension: a header, then each element after its length."""
    parts = [_HEADER.pack(1, None in values, kind, len(values), 1)]
    for value in values:
        parts += (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def _encoded(values: Sequence[str | None]) -> Sequence[bytes | None]:
    """Return texts as libpq takes them; looks for a NUL in all of them at once."""
    encoded = [None if value is None else value.encode() for value in values]
    if b"\0" in b"".join(filter(None, encoded)):
        raise errors.DataError(_HOLDS_NUL)
    return encoded


def _text(value: str) -> bytes:
    """Return text as libpq takes it, which would silently end at a NUL."""
    encoded = value.encode()
    if b"\0" in encoded:
        raise errors.DataError(_HOLDS_NUL)
    return encoded


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    int: b"%d".__mod__,
    str: _text,
    bool: {True: b"t", False: b"f"}.__getitem__,
}
