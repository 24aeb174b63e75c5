"""One message for one saga: find its row, call its method, leave what it made of its state.

Invariants: the state is read from the row that is locked, and written or deleted before the method's sends leave;
nothing is written or sent here. No state is left that the next message could not read, or that is found by another
value than its row.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from rowbus.errors import SagaCorrelationError, SagaStateError
from rowbus.messages.headers import Header
from rowbus.messages.state_change import STATE_CHANGES, StateChange
from rowbus.running.handling import refuse_unbegun
from rowbus.running.telemetry.instruments import tracing
from rowbus.sagas.context import SagaContext
from rowbus.sagas.decisions import (
    Search,
    correlation_text,
    is_for_another,
    is_timeout,
    may_begin,
    saga_id_of,
    search,
    value_of,
)
from rowbus.sagas.definition import Role
from rowbus.sagas.history.table import Transition
from rowbus.sagas.table import Beginning

if TYPE_CHECKING:
    from collections.abc import Collection

    from rowbus.endpoint.context import Context
    from rowbus.sagas.definition import Definition, Rule, Rules
    from rowbus.sagas.saga import Saga
    from rowbus.sagas.store import SagaStore
    from rowbus.sagas.table import SagaRow
    from rowbus.transport.receiving.delivery import Delivery


def read_state(definition: Definition, row: SagaRow) -> Any:  # noqa: ANN401 - of the saga's state class
    """Return the state of a row; raises SagaStateError, which names the saga."""
    try:
        return _fitting(definition, row, definition.form.read(row.state, row.version))
    except SagaStateError as error:
        raise type(error)(f"{_named(definition, row)} cannot be read: {error}.", saga_id=row.id) from error


def written_state(definition: Definition, row: SagaRow, state: object) -> str:
    """Return the JSON of what a method made of a state; raises SagaStateError if that could not be read again."""
    text = definition.form.write_over(row.state, state)
    try:
        _fitting(definition, row, definition.form.read_again(state, text))
    except SagaStateError as error:
        raise SagaStateError(
            f"{_named(definition, row)} stays as it was: what the method left could not be read again: {error}.",
            saga_id=row.id,
        ) from error
    return text


def _fitting(definition: Definition, row: SagaRow, state: Any) -> Any:  # noqa: ANN401 - as read_state
    """Return a state if it has the value by which its row is found."""
    key = definition.key
    if key is None or key.is_held(state, row.correlation):
        return state
    raise SagaStateError(
        f"its state has {key.value_in(state)!r} in {key}, by which its row is not found; a field that is renamed needs "
        "a rowbus.upgrade that takes the value along"
    )


def _named(definition: Definition, row: SagaRow) -> str:
    return f"Saga {row.id} of {definition.name} (found by {row.correlation!r})"


logger = logging.getLogger("rowbus.sagas")


class Note:
    """One call of a saga's method, noted from its beginning."""

    def __init__(self, delivery: Delivery, saga_type: str, row: SagaRow) -> None:
        """Begin; what the delivery sends from now on, the method sends."""
        self._delivery = delivery
        self._changes = cast("list[StateChange] | None", delivery.items.get(STATE_CHANGES))
        self._type = saga_type
        self._row = row
        self._started = datetime.now(UTC)
        self._sent = len(delivery.sends)

    def end(self, write: Callable[[], str], *, is_completed: bool) -> None:
        """Note what has become of the state, which `write` gives as JSON; called only where changes are reported."""
        if self._changes is None:
            return
        sends = tuple(self._delivery.sends[self._sent :])
        change = StateChange(
            self._type,
            self._row.id,
            self._told(write()),
            self._row.concurrency == 0,
            is_completed,
            self._started,
            datetime.now(UTC),
            sends,
        )
        self._changes.append(change)

    def _told(self, state: str) -> str:
        """Return a state with the members that every saga of .NET has."""
        told = msgspec.json.decode(state, type=dict[str, msgspec.Raw])
        told |= {
            name: msgspec.Raw(msgspec.json.encode(value))
            for name, value in (
                ("Id", self._row.id),
                ("Originator", self._row.originator),
                ("OriginalMessageId", self._row.original_message_id),
            )
        }
        return msgspec.json.encode(told).decode()


Method = Callable[[object, "Context"], Awaitable[object]]
"""The method of a saga that is called for a message."""


class Call(NamedTuple):
    """A message in hand: the method for it, its context, and where its saga's row is."""

    rule: Rule
    message: object
    context: Context
    store: SagaStore


class Invocation:
    """Handles the messages of one type for one saga class."""

    def __init__(
        self,
        saga: type[Saga[Any]],
        rules: Rules,
        store: Callable[[Context], SagaStore],
        known: Collection[str],
        bound: Callable[[Rule, Saga[Any]], Method],
    ) -> None:
        """Call these methods; rows are in `store`, `known` are the types of the endpoint's sagas.

        `bound` makes of a rule and a saga what is called with a message and a context.
        """
        self._saga = saga
        self._definition: Definition = saga.definition
        self._rules = rules
        self._store = store
        self._known = known
        self._bound = bound

    async def __call__(self, message: object, context: Context) -> None:
        """Handle a message in its transaction; raises what finding the saga, or its method, raises."""
        rule = self._rules.timeout if is_timeout(context.headers) else self._rules.message
        name = self._definition.full_name
        if rule is None or is_for_another(context.headers, name, self._known):
            logger.info("Message %s is nothing for saga %s: it is not called", context.message_id, name)
            return
        call = Call(rule, message, context, self._store(context))
        value, row = await self._find(call)
        if row is None:
            await self._not_found(call)
        else:
            await self._handle(call, row, value)

    async def _find(self, call: Call) -> tuple[object, SagaRow | None]:
        """Return what the message is correlated by, and the row that it found."""
        rule, message, context, store = call
        saga_id = saga_id_of(context.headers)
        begins = rule.role is Role.START and may_begin(context.headers, self._definition.full_name)
        way = search(saga_id, begins=begins)
        if way is Search.BY_ID and saga_id is not None:
            row = await store.find_by_id(saga_id)
            if row is None and begins:
                raise self._unknown(saga_id)
            return None, row
        if rule.by is None:
            raise self._unmapped(rule)
        given = await self._given(rule, message, context)
        if given is None and rule.is_finder and way is Search.BY_CORRELATION:
            return None, None
        value = self._value(given, rule)
        text = correlation_text(value)
        if way is Search.BY_CORRELATION:
            return value, await store.find(text)
        return value, await store.find_or_begin(self._beginning(text, context))

    @staticmethod
    async def _given(rule: Rule, message: object, context: Context) -> object:
        """Return what a message is correlated by, as its rule gives it."""
        by = cast("Any", rule.by)
        if not rule.is_finder:
            return value_of(by, message, context.headers)
        found: object = await by(message, context)
        await context._delivery.ensure_finished()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its attempt
        return found

    def _value(self, given: object, rule: Rule) -> object:
        """Return the same as the state's field has it."""
        key, by = self._definition.key, rule.by
        if key is None:
            return given
        return key.convert(
            given, f"The header {by}" if isinstance(by, str) else f"What by= of {rule.name} gives"
        )

    def _unmapped(self, rule: Rule) -> SagaCorrelationError:
        lacks = f"The message has no {Header.SAGA_ID}, and"
        if rule.role is Role.TIMEOUT:
            return SagaCorrelationError(f"{lacks} a timeout of {self._definition.name} needs it.", value=None)
        return SagaCorrelationError(
            f"{lacks} {rule.name} does not say what else its saga is found by: give "
            f"rowbus.{rule.role.value}({rule.kind.__name__}, by=…).",
            value=None,
        )

    def _unknown(self, saga_id: str) -> SagaCorrelationError:
        return SagaCorrelationError(
            f"The message is for the saga {saga_id}, which {self._definition.name} has not, and does not say of which "
            f"type that is: it begins none. Leave out {Header.SAGA_ID} to begin one.",
            value=saga_id,
        )

    def _beginning(self, text: str, context: Context) -> Beginning:
        return Beginning(
            text,
            self._definition.form.version,
            context.headers.get(Header.REPLY_TO_ADDRESS),
            context.message_id,
        )

    async def _handle(self, call: Call, row: SagaRow, value: object) -> None:
        rule, message, context, store = call
        definition = self._definition
        if (spans := tracing()) is not None:
            spans.tell({"rowbus.saga.type": definition.full_name, "rowbus.saga.id": row.id})
        saga = self._saga()
        saga.state = self._state(row, value)
        before = self._correlated(saga)
        inner = SagaContext(context, row, definition.name, store)
        note = Note(inner._delivery, definition.full_name, row)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its attempt
        refuse_unbegun(rule.method, await self._bound(rule, saga)(message, inner))
        await inner._delivery.ensure_finished()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its attempt
        note.end(lambda: definition.form.write(saga.state), is_completed=inner.is_completed)
        if not inner.is_completed:
            self._refuse_change(before, saga)
            state = written_state(definition, row, saga.state)
            await inner.leave(state, definition.form.version)
        else:
            state = definition.form.write(saga.state) if definition.keeping.completed is not None else "{}"
            await inner.end()
        if definition.keeping.needs_table:
            await store.record(_transition(row, context, state, is_completed=inner.is_completed))

    def _state(self, row: SagaRow, value: object) -> Any:  # noqa: ANN401 - of the saga's state class
        if row.concurrency == 0:
            return self._definition.new_state(value)
        return read_state(self._definition, row)

    def _correlated(self, saga: Saga[Any]) -> object:
        key = self._definition.key
        return None if key is None else key.value_in(saga.state)

    def _refuse_change(self, before: object, saga: Saga[Any]) -> None:
        key, after = self._definition.key, self._correlated(saga)
        if key is not None and before != after:
            raise SagaCorrelationError(
                f"{self._definition.name} is found by {key.name}, which a method changed from {before!r} to "
                f"{after!r}: it must stay as it is.",
                value=after,
            )

    async def _not_found(self, call: Call) -> None:
        rule, message, context, _ = call
        missing = self._definition.not_found
        if rule.role is Role.TIMEOUT or missing is None:
            logger.info(
                "Message %s found no saga %s%s: it is consumed",
                context.message_id,
                self._definition.name,
                ", which has completed before this timeout" if rule.role is Role.TIMEOUT else "",
            )
            return
        refuse_unbegun(missing.method, await self._bound(missing, self._saga())(message, context))


def _transition(row: SagaRow, context: Context, state: str, *, is_completed: bool) -> Transition:
    return Transition(
        row.id,
        row.concurrency + 1,
        row.correlation,
        context.message_id,
        (context.headers.get(Header.ENCLOSED_MESSAGE_TYPES) or "").partition(";")[0],
        None if row.concurrency == 0 else row.state,
        state,
        is_completed,
    )
