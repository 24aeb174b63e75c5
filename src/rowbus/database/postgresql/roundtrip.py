"""Several statements in one round trip: libpq's pipeline mode, without a cursor for each statement.

A receiving slot commits, begins and receives again for every message. Three cursors and three waits cost it more than
the server's work; this sends all three, then waits once (docs/performance.md has the figures). Parameters go as text,
bytes as they are; every parameter in our SQL files is cast, so the server knows the types.

Invariant: statements after a failed one do not run, and the answers come back in the order of the statements, one each.
Source: PostgreSQL documentation, "libpq: pipeline mode".
"""

from __future__ import annotations

import hashlib
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import errors
from psycopg.adapt import PyFormat
from psycopg.adapt import Transformer as DriverTransformer
from psycopg.pq import ExecStatus, Format
from psycopg.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import psycopg
    from psycopg.abc import PQGen, Transformer
    from psycopg.pq.abc import PGresult

    from rowbus.database.statements import Rows, Statement

_UNKNOWN_PLAN = "26000"
_PLAN_EXISTS = "42P05"
_SUCCEEDED = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})


STALE_AFTER = 2.0
"""Seconds after which a plan is made anew. The server plans for the size of a queue at that time and keeps the plan
until the table is analysed: a scan and a sort, right for an empty queue, would meet a burst of 40,000 messages."""


MOST_PLANS = 200
"""Plans of one connection: each queue that is sent to has one or two, and takes memory of the server too."""


_Parameters = tuple[list[bytes | None] | None, list[Format] | None]
"""Values and their formats, None for a statement without any."""


class _Plan(NamedTuple):
    """A prepared statement: its name on the server, and when it was made."""

    name: bytes
    made: float


class _Sent(NamedTuple):
    """How many results come before a statement's own, and the plan that the first of them is about to give up."""

    before: int = 0
    leaving: tuple[bytes, _Plan] | None = None


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
        self._plans: dict[bytes, _Plan] = {}

    async def run(self, statements: Sequence[Statement[object]]) -> list[Answer]:
        """Run the statements and return their answers, in order. Raises the driver's error if the connection breaks."""
        async with self._connection.lock:
            results = await self._connection.wait(self._exchange(statements))
        answers = [Answer(result, self._transformer) for result in results]
        if any(not answer.succeeded and answer.error.sqlstate == _UNKNOWN_PLAN for answer in answers):
            self.forget_plans()  # DEALLOCATE ALL or DISCARD ALL was run; the next try prepares anew
        return answers

    def forget_plans(self) -> None:
        """Prepare everything anew: the plans are gone from the server."""
        self._plans.clear()

    def _exchange(self, statements: Sequence[Statement[object]]) -> PQGen[list[PGresult]]:
        pgconn = self._pgconn
        encoded = [self._encode(statement) for statement in statements]  # may raise, so before the pipeline
        pgconn.enter_pipeline_mode()
        sent = [self._send(*each) for each in zip(statements, encoded, strict=True)]
        pgconn.pipeline_sync()
        while pgconn.flush():
            yield Wait.W
        results = yield from self._results()
        pgconn.exit_pipeline_mode()
        return list(self._answers(statements, results, sent))

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

    def _send(self, statement: Statement[object], parameters: _Parameters) -> _Sent:
        """Queue one statement, and what prepares it if need be."""
        query = statement.query
        values, formats = parameters
        if not (self._prepare and query.prepare):
            self._pgconn.send_query_params(query.native, values, None, formats, Format.BINARY)
            return _Sent()
        plan = self._plans.get(query.native)
        sent = _Sent()
        if plan is None:
            leaving = self._leaving()
            plan = _Plan(_name(query.native), monotonic())
            sent = _Sent(self._send_prepare(plan, query.native, instead_of=leaving and leaving[1]), leaving)
        elif query.names and monotonic() - plan.made > STALE_AFTER:
            plan = plan._replace(made=monotonic())
            sent = _Sent(self._send_prepare(plan, query.native, instead_of=plan))
        self._pgconn.send_query_prepared(plan.name, values, formats, Format.BINARY)
        return sent

    def _leaving(self) -> tuple[bytes, _Plan] | None:
        """Forget the plan made longest ago if there is no room for another, and return it."""
        if len(self._plans) < MOST_PLANS:
            return None
        text = next(iter(self._plans))
        return text, self._plans.pop(text)

    def _send_prepare(self, plan: _Plan, text: bytes, *, instead_of: _Plan | None) -> int:
        """Queue what makes a plan, and what gives up another; return how many results they have."""
        if instead_of is not None:
            self._pgconn.send_query_params(b"deallocate " + instead_of.name, None)
        self._plans[text] = plan
        self._pgconn.send_prepare(plan.name, text)
        return 1 if instead_of is None else 2

    def _answers(
        self, statements: Sequence[Statement[object]], results: list[PGresult], sent: list[_Sent]
    ) -> Generator[PGresult]:
        """Give one result for each statement; a failed preparation is its statement's failure, and is forgotten.

        A plan that was to leave, and did not because a statement before had failed, is remembered.
        """
        following = iter(results)
        for statement, (before, leaving) in zip(statements, sent, strict=True):
            own = [next(following) for _ in range(before + 1)]
            if leaving is not None and own[0].status != ExecStatus.COMMAND_OK:
                self._plans.setdefault(*leaving)
            failed = next((result for result in own[:-1] if result.status != ExecStatus.COMMAND_OK), None)
            if failed is not None and errors.error_from_result(failed).sqlstate != _PLAN_EXISTS:
                self._plans.pop(statement.query.native, None)
            yield failed or own[-1]

    def _encode(self, statement: Statement[object]) -> _Parameters:
        names = statement.query.names
        if not names:
            return None, None
        values: list[bytes | None] = []
        formats: list[Format] = []
        for name in names:
            value = statement.parameters[name]
            if value is None:
                values.append(None)
                formats.append(Format.TEXT)
            elif (plain := _PLAIN.get(type(value))) is not None:
                values.append(plain(value))
                formats.append(Format.TEXT)
            elif isinstance(value, bytes):
                values.append(value)
                formats.append(Format.BINARY)
            else:
                (dumped,) = self._transformer.dump_sequence([value], [PyFormat.TEXT])
                values.append(None if dumped is None else bytes(dumped))
                formats.append(Format.TEXT)
        return values, formats


def _name(text: bytes) -> bytes:
    """Name a plan after its text: should a pooler mix sessions up, a name still means the same statement."""
    return b"rowbus_" + hashlib.md5(text, usedforsecurity=False).hexdigest().encode()


def _text(value: str) -> bytes:
    """Return text as libpq takes it, which would silently end at a NUL."""
    encoded = value.encode()
    if b"\0" in encoded:
        raise errors.DataError("PostgreSQL's text cannot hold the character NUL")
    return encoded


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    int: lambda value: b"%d" % value,
    str: _text,
    bool: lambda value: b"t" if value else b"f",
}
