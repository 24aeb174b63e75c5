"""Mistakes in what is sent, and how, are named with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import rowbus
from rowbus.database.backends import addresses_of, borrow, open_database
from rowbus.errors import ConfigurationError, InvalidHeaderError, MessageSerializationError
from rowbus.messages.message_types import serialize
from rowbus.messages.outgoing import Options, Origin
from rowbus.transport.composition import Composer
from tests.fixtures.every import every


@dataclass
class PlaceOrder:
    order_id: str


def test_a_class_in_place_of_a_message() -> None:
    with pytest.raises(MessageSerializationError) as caught:
        serialize(PlaceOrder)
    assert str(caught.value) == "PlaceOrder is a class: send an object of it, as in PlaceOrder(…)."


def test_a_number_as_a_delay() -> None:
    options = Options(delay=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the mistake

    with pytest.raises(InvalidHeaderError) as caught:
        _ = options.due
    assert str(caught.value) == "delay is 5; give a datetime.timedelta, as in delay=timedelta(seconds=5)."


def test_a_key_that_the_database_cannot_read() -> None:
    composer = Composer(addresses_of("postgresql://"), Origin())
    with pytest.raises(InvalidHeaderError) as caught:
        composer.compose("Sales", PlaceOrder("1"), Options(key="any\0key"))
    assert str(caught.value) == r"'any\x00key' holds a NUL, which no lane can be chosen by."


SETTINGS: list[Callable[..., Any]] = [rowbus.EndpointSettings, rowbus.TickerSettings, rowbus.ConsumerSettings]


@every("settings", SETTINGS)
def test_a_number_as_a_span_of_time_in_settings(settings: Callable[..., Any]) -> None:
    name = {rowbus.EndpointSettings: "peek_delay", rowbus.TickerSettings: "tick_period"}.get(
        settings, "poll_delay"
    )  # type: ignore[call-overload]

    with pytest.raises(ConfigurationError) as caught:
        settings(**{name: 5})
    assert str(caught.value) == f"{name} is 5; give a datetime.timedelta, as in {name}=timedelta(seconds=5)."
    settings(**{name: timedelta(seconds=1)})


@every("use", [addresses_of, open_database])
def test_a_url_of_sqlalchemy(use: Callable[[str], object]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        use("postgresql+psycopg://shop:secret@db/shop")
    assert str(caught.value) == (
        "postgresql+psycopg:// begins a URL of SQLAlchemy's. Rowbus brings its own driver: write postgresql:// and the "
        "rest as it is."
    )


def test_django_s_connection() -> None:
    proxy = type("ConnectionProxy", (), {"__module__": "django.utils.connection"})()

    with pytest.raises(ConfigurationError) as caught:
        borrow(proxy)
    assert str(caught.value) == (
        "Client was given Django's connection, a django.utils.connection.ConnectionProxy. Give it the driver's, inside "
        "of transaction.atomic(): connection.ensure_connection(), then Client(connection.connection)."
    )
