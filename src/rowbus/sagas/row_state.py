"""A saga's state in its row: what is read fits the row, and what is written can be read again.

Invariant: no state is written that the next message could not read, or that is found by another value than its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowbus.errors import SagaStateError

if TYPE_CHECKING:
    from rowbus.sagas.definition import Definition
    from rowbus.sagas.table import SagaRow


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
