"""Errors: one tree, facts as attributes, and able to cross process boundaries."""

from __future__ import annotations

import copy
import inspect
import pickle

from rowbus import errors
from rowbus.errors import (
    ConfigurationError,
    ConnectionLostError,
    InvalidAddressError,
    InvalidHeaderError,
    InvalidTimestampError,
    MalformedHeadersError,
    MessageError,
    QueueNotFoundError,
    RowbusError,
    StorageError,
    TransactionConflictError,
    Unrecoverable,
)
from tests.fixtures.every import every

EVERY_ERROR = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__
]


def test_every_error_is_found() -> None:
    assert len(EVERY_ERROR) >= 18


@every("kind", EVERY_ERROR)
def test_every_error_is_in_the_one_tree(kind: type) -> None:
    assert issubclass(kind, RowbusError)


@every("kind", EVERY_ERROR)
def test_every_error_is_drawn_in_the_modules_tree(kind: type) -> None:
    assert f"{kind.__name__}" in (errors.__doc__ or "")


@every("kind", EVERY_ERROR)
def test_every_error_keeps_its_text_and_facts_through_pickle_and_copy(kind: type[RowbusError]) -> None:
    error = kind("what to do next", queue="Sales", sqlstate="42P01", transient=False, types=("a", "b"))

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - made here
        assert type(again) is kind
        assert str(again) == "what to do next"
        assert vars(again) == vars(error)
        assert again.types == ("a", "b")  # type: ignore[attr-defined]  # a fact, given above


def test_errors_of_the_users_own_pickle_too() -> None:
    again = pickle.loads(pickle.dumps(CardDeclinedError("declined", card="4242")))  # noqa: S301 - made here

    assert type(again) is CardDeclinedError
    assert again.card == "4242"


class CardDeclinedError(Unrecoverable):
    card: str


@every("kind", [InvalidAddressError, InvalidHeaderError, InvalidTimestampError, MalformedHeadersError])
def test_bad_values_are_value_errors_too(kind: type) -> None:
    assert issubclass(kind, ValueError)


def test_what_the_driver_raised_is_a_storage_error() -> None:
    assert issubclass(ConnectionLostError, StorageError)
    assert issubclass(TransactionConflictError, StorageError)
    assert not issubclass(QueueNotFoundError, StorageError)


def test_what_is_known_before_any_io_is_a_configuration_error() -> None:
    assert issubclass(InvalidAddressError, ConfigurationError)
    assert not issubclass(ConfigurationError, MessageError)
