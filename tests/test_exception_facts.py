"""Facts about an exception are read from every one, whatever it does when it is looked at."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg

import rowbus
from rowbus.database.postgresql import faults
from rowbus.database.sqlserver import faults as sqlserver_faults
from rowbus.errors.strangers import (
    arguments_of,
    attribute,
    chain_of,
    data_of,
    exc_info_of,
    is_a,
    notes_of,
    printable_value,
    sqlstate_of,
    text_of,
    traceback_of,
    type_name,
)
from rowbus.log.consumers.policy import DeadLetter, Retries, judge
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header, Identity
from rowbus.transport.delayed_store import decisions
from rowbus.transport.receiving.decisions import lost_connection
from rowbus.transport.recoverability.failure_headers import failed_message, python_traceback
from rowbus.transport.recoverability.policy import FailedAttempt, MoveToErrorQueue
from rowbus.work.fate import is_outage_in_handler
from tests.fixtures.every import every
from tests.fixtures.strangers import REFUSED, stranger

NAME = "tests.fixtures.strangers.Stranger"
NOW = datetime(2026, 11, 26, tzinfo=UTC)


def raised(kind: type[BaseException]) -> BaseException:
    error = kind.__new__(kind, "out of stock")  # a driver's `__init__` looks at itself
    try:
        int("the one before")
    except ValueError as before:
        try:
            raise error from before
        except kind:
            return error
    raise AssertionError


@every("refused", REFUSED)
def test_a_stranger_has_facts_all_the_same(refused: str) -> None:
    error = raised(stranger(refused))

    assert is_a(error, ValueError)
    assert not is_a(error, KeyError)
    assert (type_name(error), text_of(error), arguments_of(error)) == (
        NAME,
        "out of stock",
        ("out of stock",),
    )
    assert text_of(error, repr) == printable_value(error, repr) == "Stranger('out of stock')"
    assert [type(one) for one in chain_of(error)] == [type(error), ValueError]
    assert (data_of(error), notes_of(error), sqlstate_of(error)) == ({}, [], None)
    assert exc_info_of(error)[2] is not None
    assert attribute(error, "missing") is None


@every("refused", REFUSED)
def test_a_stranger_is_told_of_in_logs_and_headers(refused: str) -> None:
    error = raised(stranger(refused))
    copy = failed_message(
        headers={},
        body=b"",
        error=error,
        failed_queue=QueueAddress("public", "Sales"),
        identity=Identity("Sales", "here", "0" * 32),
        now=NOW,
    )

    assert f"{NAME}: out of stock" in traceback_of(error)
    assert f"{NAME}: " in python_traceback(error)
    assert (copy.headers[Header.EXCEPTION_STACK_TRACE] or "").startswith(f"{NAME}: out of stock")
    assert "ValueError: invalid literal" in traceback_of(error)
    assert copy.headers[Header.EXCEPTION_TYPE] == NAME
    assert copy.headers[Header.EXCEPTION_MESSAGE] == "out of stock"
    assert copy.headers[Header.INNER_EXCEPTION_TYPE] == "ValueError"


class Unspeakable:
    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


def test_what_has_no_text_is_told_by_its_type() -> None:
    error = stranger("__str__")(Unspeakable())

    assert text_of(error) == "(a Stranger whose text cannot be had)"
    assert text_of(Unspeakable()) == "(a Unspeakable whose text cannot be had)"


@every("refused", REFUSED)
def test_verdicts_on_a_stranger_are_verdicts(refused: str) -> None:
    error = raised(stranger(refused))
    policy = rowbus.Recoverability(unrecoverable=(ValueError,))

    assert policy.decide(FailedAttempt(error, 1, {}, NOW)) == MoveToErrorQueue()
    assert judge(error, 0, Retries(0, 1.0, 1.0), random.random) == DeadLetter(f"{NAME}: out of stock")
    assert not is_outage_in_handler(error, None)
    assert not decisions.is_outage(error)
    assert "out of stock" in lost_connection(error)


OURS: dict[str, tuple[type[BaseException], Callable[[Any], rowbus.RowbusError]]] = {
    "psycopg": (psycopg.OperationalError, faults.translate),
    "a driver of SQL Server": (Exception, sqlserver_faults.translate),
}


@every("driver", OURS)
@every("refused", REFUSED)
def test_a_stranger_among_drivers_errors_is_translated(driver: str, refused: str) -> None:
    base, translate = OURS[driver]
    error = raised(stranger(refused, base))

    assert str(translate(error)) == "The database failed: out of stock"


@every("refused", REFUSED)
def test_a_stranger_among_our_own_is_no_outage_by_itself(refused: str) -> None:
    error = raised(stranger(refused, rowbus.StorageError))

    assert not is_outage_in_handler(error, None)
    assert not decisions.is_outage(error)
