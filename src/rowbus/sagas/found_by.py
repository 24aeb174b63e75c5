"""What the sagas of a table are found by, looked at before their endpoint begins to receive.

Invariant: a class that fits none of the sagas that go on does not start: it would begin second ones. Rows at fault
among others stop nothing; their messages fail.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError, SagaStateError
from rowbus.sagas.nservicebus import table as shared

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.sagas.definition import Definition
    from rowbus.sagas.key import Key
    from rowbus.sagas.table import KeptSaga, SagaRow, SagaTable

MOST: Final = 20
"""How many sagas are looked at."""


async def check_found_by(session: AsyncSession, table: SagaTable, definition: Definition) -> None:
    """Raise ConfigurationError if the sagas that go on are found by another value than this class says."""
    if isinstance(table, shared.SagaTable):
        _check_column(table, definition, await session.run(table.lacking_column()))
    elif definition.key is not None:
        _check_rows(table, definition, definition.key, await session.run(table.page(MOST)))


def _check_column(table: SagaTable, definition: Definition, found: str | None) -> None:
    if found is not None:
        raise ConfigurationError(
            f"{definition.full_name} is found by {definition.key}, and {table.address} has no column for that: it has "
            f"{found or 'none'}. Give correlation= the field of before, or change the table over with .NET."
        )


def _check_rows(table: SagaTable, definition: Definition, key: Key, sagas: list[KeptSaga]) -> None:
    """Refuse rows none of which fits; those that cannot be read, as of a newer version, say nothing."""
    held = [(kept.row, _is_held(definition, key, kept.row)) for kept in sagas]
    strange = [row for row, is_held in held if is_held is False]
    if strange and not any(is_held for _, is_held in held):
        raise ConfigurationError(
            f"{definition.full_name} is found by {key}, and the sagas that go on in {table.address} are found by "
            f"another value, as that of {strange[0].correlation!r}: messages would begin second ones. Give "
            "correlation= the field of before; or, for one that was renamed, declare a rowbus.upgrade that takes the "
            "value along."
        )


def _is_held(definition: Definition, key: Key, row: SagaRow) -> bool | None:
    """Say whether a row's state has the value by which it is found; None: it cannot be read."""
    with suppress(SagaStateError):
        return key.is_held(definition.form.read(row.state, row.version), row.correlation)
    return None
