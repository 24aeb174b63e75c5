"""For users' tests of sagas: messages and time pass, rows are kept, without a database.

```python
order = SagaScenario(OrderSaga)
await order.when(PlaceOrder("42"))
outcome = await order.after(timedelta(days=3))
assert order.state is None  # it has completed
```

Invariants: a message takes the way of `run_handlers`; only the rows, which are in memory, and the clock are the test's;
the store answers as the saga's table does; there are no locks, because one message comes at a time; the clock never
goes back, and never by itself.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from rowbus import TransactionConflictError
from rowbus.endpoint.endpoint import Endpoint
from rowbus.messages.headers import Header
from rowbus.sagas.decisions import correlation_text
from rowbus.sagas.saga import SagaComponent
from rowbus.sagas.table import Beginning, SagaRow
from rowbus.testing.handlers import run_handlers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.endpoint.context import Context
    from rowbus.sagas.history.table import Transition
    from rowbus.sagas.saga import Saga
    from rowbus.sagas.timeouts import Timeout
    from rowbus.testing.outcome import Outcome, SentMessage


class MemoryStore:
    """The rows of one saga class, without locks: one message at a time."""

    def __init__(self) -> None:
        """Begin without sagas."""
        self.rows: dict[str, SagaRow] = {}

    async def find(self, correlation: str) -> SagaRow | None:
        """Return the saga found by this text."""
        return next((row for row in self.rows.values() if row.correlation == correlation), None)

    async def find_by_id(self, saga_id: str) -> SagaRow | None:
        """Return the saga of this id."""
        return self.rows.get(saga_id)

    async def find_or_begin(self, beginning: Beginning) -> SagaRow:
        """Return the saga, which begins now if there is none."""
        return await self.find(beginning.correlation) or self.begin(beginning)

    def begin(self, beginning: Beginning) -> SagaRow:
        """Return the row of a saga that begins."""
        row = SagaRow(
            str(uuid.uuid4()),
            beginning.correlation,
            "{}",
            beginning.version,
            0,
            beginning.originator,
            beginning.original_message_id,
        )
        self.rows[row.id] = row
        return row

    async def write(self, row: SagaRow, state: str, version: int, timeouts: str | None) -> None:  # noqa: ARG002 - see `due`
        """Write a saga's state."""
        self._check(row)
        self.rows[row.id] = row._replace(state=state, version=version, concurrency=row.concurrency + 1)

    async def delete(self, row: SagaRow) -> None:
        """Delete a saga."""
        self._check(row)
        del self.rows[row.id]

    async def record(self, transition: Transition) -> None:
        """Do nothing: a test sees what its messages did."""

    async def due(self, due: timedelta | datetime) -> None:  # noqa: ARG002 - as the protocol has it
        """Return None: the scenario has the timeouts, and drops those of sagas that have completed."""
        return

    def cancel(self, waiting: Timeout) -> None:
        """Do nothing: none was noted."""

    def _check(self, row: SagaRow) -> None:
        if self.rows.get(row.id) != row:
            raise TransactionConflictError(f"Saga {row.id} was changed meanwhile.")


class MemorySaga:
    """A saga that keeps its rows in memory, to be added to an endpoint."""

    def __init__(self, saga: type[Saga[Any]], store: MemoryStore) -> None:
        """Keep the rows there."""
        self._saga = saga
        self._store = store

    def component(self) -> SagaComponent:
        """Return what an endpoint serves."""
        return SagaComponent(self._saga, self._in_memory)

    def _in_memory(self, _context: Context) -> MemoryStore:
        return self._store


class FakeClock:
    """A clock that goes only when told to. Calling it gives seconds, `now` the time of day."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        """Stand at `start`, a datetime with a time zone, and at 0 seconds."""
        self._start = start
        self._seconds = 0.0

    def __call__(self) -> float:
        """Return the seconds since the start, as `time.monotonic` would."""
        return self._seconds

    def now(self) -> datetime:
        """Return the time of day, aware."""
        return self._start + timedelta(seconds=self._seconds)

    def advance(self, seconds: float) -> None:
        """Let so many seconds go by; raises ValueError for less than none."""
        if seconds < 0:
            raise ValueError(f"A clock cannot go back {-seconds} s.")
        self._seconds += seconds


S = TypeVar("S")


class Due(NamedTuple):
    """A timeout that waits; of two of one instant the one asked for first comes first."""

    at: datetime
    number: int
    sent: SentMessage


class SagaScenario(Generic[S]):
    """One saga class in a test without a database: messages come, time passes, states and sends are looked at.

    It is `run_handlers` with the saga's rows in memory and a clock of the test's; timeouts come when their time has.
    """

    def __init__(
        self, saga: type[Saga[S]], *, state: S | None = None, clock: FakeClock | None = None
    ) -> None:
        """Begin with no saga, or with one that has this state; the clock is a `FakeClock` of its own, or yours."""
        self._saga = saga
        self._store = MemoryStore()
        self._timeouts: list[Due] = []
        self._asked = 0
        self.clock = clock or FakeClock()
        self.endpoint = Endpoint("Scenario", database="postgresql:///")
        self.endpoint.add(MemorySaga(saga, self._store))
        if state is not None:
            self._put(state)

    def _put(self, state: S) -> None:
        definition = self._saga.definition
        text = "" if definition.key is None else correlation_text(definition.key.value_in(state))
        row = self._store.begin(Beginning(text, definition.form.version, None, str(uuid.uuid4())))
        self._store.rows[row.id] = row._replace(state=definition.form.write(state), concurrency=1)

    @property
    def states(self) -> list[S]:
        """The states of the sagas that go on."""
        form = self._saga.definition.form
        return [cast("S", form.read(row.state, row.version)) for row in self._store.rows.values()]

    @property
    def state(self) -> S | None:
        """The state of the one saga that goes on; None: there is none. Raises ValueError for several."""
        states = self.states
        if len(states) > 1:
            raise ValueError(f"There are {len(states)} sagas: look at `states`.")
        return states[0] if states else None

    async def when(self, message: object, *, headers: Mapping[str, str] | None = None) -> Outcome:
        """Have a message come, and say what came of it; a failure leaves the sagas as they were.

        A reply to a saga brings its id: `headers=scenario.reply_headers`.
        """
        return await self._handle(message, headers=headers)

    @property
    def reply_headers(self) -> dict[str, str]:
        """Headers that a reply to the one saga brings with it."""
        (saga_id,) = self._store.rows
        return {Header.SAGA_ID: saga_id, Header.SAGA_TYPE: self._saga.definition.name}

    async def after(self, time: timedelta) -> list[Outcome]:
        """Let time pass: what is due meanwhile comes in its order. Return what came of each."""
        end = self.clock.now() + time
        outcomes: list[Outcome] = []
        while self._timeouts and self._timeouts[0].at <= end:
            due = self._timeouts.pop(0)
            self.clock.advance((due.at - self.clock.now()).total_seconds())
            outcomes.append(await self._time_out(due.sent))
        self.clock.advance((end - self.clock.now()).total_seconds())
        return outcomes

    async def _time_out(self, sent: SentMessage) -> Outcome:
        headers = {
            name: text for name, text in sent.headers.items() if text is not None and name in PASSED_ON
        }
        return await self._handle(sent.body, type=";".join(sent.types), headers=headers)

    async def _handle(self, message: object, **options: Any) -> Outcome:  # noqa: ANN401 - of run_handlers
        before = dict(self._store.rows)
        outcome = await run_handlers(self.endpoint, message, **options)
        if outcome.error is not None:
            self._store.rows = before
        self._remember(outcome.sends)
        self._timeouts = [
            due for due in self._timeouts if due.sent.headers[Header.SAGA_ID] in self._store.rows
        ]
        return outcome

    def _remember(self, sends: Sequence[SentMessage]) -> None:
        for sent in sends:
            if Header.IS_SAGA_TIMEOUT_MESSAGE in sent.headers:
                at = (
                    sent.due
                    if isinstance(sent.due, datetime)
                    else self.clock.now() + (sent.due or timedelta())
                )
                self._asked += 1
                self._timeouts.append(Due(at, self._asked, sent))
        self._timeouts.sort(key=lambda due: (due.at, due.number))


PASSED_ON = {
    Header.SAGA_ID,
    Header.SAGA_TYPE,
    Header.IS_SAGA_TIMEOUT_MESSAGE,
    Header.CONTENT_TYPE,
    Header.ORIGINATING_SAGA_ID,
    Header.ORIGINATING_SAGA_TYPE,
}
