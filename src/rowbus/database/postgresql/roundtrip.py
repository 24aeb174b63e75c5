"""Several statements in one round trip: libpq's pipeline mode, without a cursor for each statement.

A receiving slot commits, begins and receives again for every message. Three cursors and three waits cost it more than
the server's work; this sends all three, then waits once (docs/performance.md has the figures). Parameters go as text,
bytes as they are; every parameter in our SQL files is cast, so the server knows the types.

Invariant: statements after a failed one do not run, and the answers come back in the order of the statements, one each.
Source: PostgreSQL documentation, "libpq: pipeline mode".
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import errors
from psycopg.adapt import Transformer as DriverTransformer
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.waiting import Wait

from rowbus.database.postgresql.parameters import encode
from rowbus.database.postgresql.plans import Plans, surrounded
from rowbus.database.postgresql.readiness import complete
from rowbus.database.statements import Statement, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from psycopg.abc import PQGen, Transformer
    from psycopg.pq.abc import PGresult

    from rowbus.database.postgresql.parameters import Parameters
    from rowbus.database.postgresql.plans import Change
    from rowbus.database.statements import Rows


def _as_they_are(rows: Rows, _count: int) -> Rows:
    return rows


_PLANS: Statement[Rows] = Statement(
    load(
        "database/sql/postgresql/plans.sql",
        failing="Failed to look for the session's prepared statements",
        prepare=False,
    ),
    {},
    _as_they_are,
)
_SUCCEEDED = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})


class _Sent(NamedTuple):
    """One statement under way, and what was sent before it to have its plan on the server."""

    statement: Statement[object]
    changes: Sequence[Change]


class Answer:
    """What the server answered to one statement."""

    def __init__(self, result: PGresult, transformer: Transformer) -> None:
        """Wrap a result; its rows are read when asked for."""
        self._result = result
        self._transformer = transformer

    @property
    def succeeded(self) -> bool:
        """Whether the statement ran; false also for those after a failed one."""
        return self._result.status in _SUCCEEDED

    @property
    def error(self) -> errors.Error:
        """The driver's error of a failed statement."""
        return errors.error_from_result(self._result)

    @property
    def tag(self) -> bytes | None:
        """The command tag, such as COMMIT."""
        return self._result.command_status

    @property
    def count(self) -> int:
        """How many rows the statement touched."""
        return self._result.command_tuples or 0

    def rows(self) -> Rows:
        """Return the rows with Python values."""
        if self._result.ntuples == 0:
            return ()
        self._transformer.set_pgresult(self._result)
        return self._transformer.load_rows(0, self._result.ntuples, tuple)


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
        if self._plans.is_doubtful and not self._is_spoilt:
            await self._ask_which_plans_are_there()
        return await self._run(statements)

    def doubt_plans(self) -> None:
        """Ask the server which plans it has before any is used again: some, or all, may be gone."""
        self._plans.doubt()

    async def _ask_which_plans_are_there(self) -> None:
        (answer,) = await self._run((_PLANS,))
        if not answer.succeeded:
            raise answer.error
        self._plans.keep({name.encode() for (name,) in answer.rows()})

    async def _run(self, statements: Sequence[Statement[object]]) -> list[Answer]:
        async with self._connection.lock:
            results = await complete(self._connection, self._exchange(statements))
        return [Answer(result, self._transformer) for result in results]

    @property
    def _is_spoilt(self) -> bool:
        """Whether the transaction takes nothing but its end: no plan can be made or given up in it."""
        return self._pgconn.transaction_status == TransactionStatus.INERROR

    def _exchange(self, statements: Sequence[Statement[object]]) -> PQGen[list[PGresult]]:
        pgconn = self._pgconn
        parts = [self._surrounded(statement) for statement in statements]
        whole = [*chain.from_iterable(parts)]
        # May raise, so before the pipeline.
        encoded = [encode(statement, self._transformer) for statement in whole]
        can_plan = self._prepare and not self._is_spoilt
        pgconn.enter_pipeline_mode()
        sent = [self._send(*each, can_plan=can_plan) for each in zip(whole, encoded, strict=True)]
        pgconn.pipeline_sync()
        while pgconn.flush():
            yield Wait.W
        results = yield from self._results()
        pgconn.exit_pipeline_mode()
        answers = iter(self._settle(sent, results))
        return [self._answer(part, [*islice(answers, len(part))]) for part in parts]

    def _surrounded(self, statement: Statement[object]) -> Sequence[Statement[object]]:
        """Return what is sent for a statement: itself, and what has the server plan it by an index."""
        query = statement.query
        if not query.by_index or self._is_spoilt:
            return (statement,)
        keeps = self._prepare and query.prepare
        if keeps and not self._plans.is_fresh(query):
            return surrounded(statement, 0)
        return surrounded(statement, self._plans.executions(query) if keeps else None)

    def _answer(self, part: Sequence[Statement[object]], answers: Sequence[PGresult]) -> PGresult:
        """Return the one answer to what was sent for a statement: the first failure, else the statement's own."""
        if len(part) == 1:
            return answers[0]
        own = len(part) // 2
        failed = next((answer for answer in answers if answer.status not in _SUCCEEDED), None)
        if failed is None:
            self._plans.executed(part[own].query)
        return failed or answers[own]

    def _results(self) -> PQGen[list[PGresult]]:
        pgconn = self._pgconn
        results: list[PGresult] = []
        while True:
            while pgconn.is_busy():
                yield Wait.R
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)

    def _send(self, statement: Statement[object], parameters: Parameters, *, can_plan: bool) -> _Sent:
        """Queue one statement, and what prepares it if need be."""
        query = statement.query
        values, formats = parameters
        changes: Sequence[Change] = ()
        if can_plan and query.prepare and not self._plans.is_fresh(query):
            changes = self._plans.renew(query)
            for change in changes:
                self._send_change(change)
        is_unsure = not can_plan and self._plans.is_doubtful
        if query.prepare and not is_unsure and (plan := self._plans.find(query)) is not None:
            self._pgconn.send_query_prepared(plan.name, values, formats, Format.BINARY)
        else:
            self._pgconn.send_query_params(query.native, values, None, formats, Format.BINARY)
        return _Sent(statement, changes)

    def _send_change(self, change: Change) -> None:
        if change.before is None:
            self._pgconn.send_prepare(change.name, change.text)
        else:
            self._pgconn.send_query_params(b"deallocate " + change.name, None)

    def _settle(self, sent: Sequence[_Sent], results: Sequence[PGresult]) -> list[PGresult]:
        """Return one result for each statement, and note what became of plans.

        A plan that could not be made, or given up, is its statement's failure. So is, for the last statement, what
        comes after all answers: the refusal of the commit that the end of the pipeline is, outside of a transaction.
        """
        following = iter(results)
        changes: list[tuple[Change, PGresult]] = []
        answers: list[PGresult] = []
        for each in sent:
            own = [(change, next(following)) for change in each.changes]
            answer = next(following)
            failed = next((result for _, result in own if result.status != ExecStatus.COMMAND_OK), answer)
            changes += own
            answers.append(failed)
        # What follows a failure, such as the connection's end, says less.
        if answers[-1].status in _SUCCEEDED:
            answers[-1] = next(following, answers[-1])
        self._plans.undo(changes)
        for each, answer in zip(sent, answers, strict=True):
            if answer.status == ExecStatus.FATAL_ERROR:
                self._plans.learn(each.statement.query, answer)
        return answers
