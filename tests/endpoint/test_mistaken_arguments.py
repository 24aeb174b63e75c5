"""Arguments of endpoints, policies, schedules and sends have the right type, or a sentence says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rowbus
from rowbus.messages.message_types import serialize
from rowbus.transport.recurring.schedule import schedule_of
from tests.fixtures.every import every

# As untyped programs see them.
POLICY: Any = rowbus.Recoverability
SETTINGS: Any = rowbus.EndpointSettings
CONSUMER: Any = rowbus.ConsumerSettings
ENDPOINT: Any = rowbus.Endpoint
LOG: Any = rowbus.Log("postgresql://", "orders")
REQUESTS: Any = rowbus.AsyncRequestClient("Web", database="postgresql://")
SPAN = timedelta(seconds=5)


def handler(**options: object) -> object:
    def handle(message: dict[str, Any]) -> None: ...

    return ENDPOINT("S").handler("Shop.Any", **options)(handle)


@every(
    "make, text",
    [
        (
            lambda: POLICY(increase=5),
            "increase is 5; give a datetime.timedelta, as in increase=timedelta(seconds=5).",
        ),
        (lambda: POLICY(immediate="3"), "immediate is '3'; give an int."),
        (lambda: SETTINGS(concurrency="4"), "concurrency is '4'; give an int."),
        (lambda: SETTINGS(batch_size=True), "batch_size is True; give an int or 'auto'."),
        (lambda: SETTINGS(batch_size="many"), "batch_size is 'many'; give an int or 'auto'."),
        (lambda: SETTINGS(notifications="no"), "notifications is 'no'; give a bool."),
        (lambda: SETTINGS(error_queue=None), "error_queue is None; give a str."),
        (
            lambda: SETTINGS(max_records_to_peek="9"),
            "max_records_to_peek is '9'; give an int or None.",
        ),
        (
            lambda: CONSUMER(poll_delay=1),
            "poll_delay is 1; give a datetime.timedelta, as in poll_delay=timedelta(seconds=1).",
        ),
        (lambda: ENDPOINT("S", settings={}), "settings is {}; give rowbus.EndpointSettings(…)."),
        (
            lambda: ENDPOINT("S", recoverability=3),
            "recoverability is 3; give rowbus.Recoverability(…), or a class derived from it.",
        ),
        (lambda: ENDPOINT(5), "name is 5; give text."),
        (lambda: ENDPOINT("S", database=5), "database is 5; give a connection string, or None."),
        (
            lambda: ENDPOINT("S", delayed_delivery=True),
            "delayed_delivery is True; give rowbus.NativeDelayedDelivery(…), DelayedDeliverySettings(…), or None.",
        ),
        (
            lambda: ENDPOINT("S", serializers=5),
            "serializers is 5; give a sequence of them, such as [rowbus.Json()].",
        ),
        (lambda: ENDPOINT("S").add(5), "5 is no addition; give a class of a rowbus.Saga."),
        (lambda: ENDPOINT("S").check(every=5)(print), "every is 5; give a datetime.timedelta, or None."),
        (lambda: handler(long="yes"), "long is 'yes'; give True or False."),
        (lambda: handler(subscribe="no"), "subscribe is 'no'; give True, False or None."),
        (lambda: handler(limit=3), "limit is 3; give rowbus.RateLimit(…) or rowbus.Concurrency(…)."),
        (lambda: handler(retries=3), "retries is 3; give rowbus.Retries(…)."),
        (
            lambda: handler(time_limit=True),
            "time_limit is True; give a timedelta longer than nothing, or None.",
        ),
        (
            lambda: ENDPOINT("S").handler("Shop.A", 5)(print),
            "What a handler is registered with is 5; give a function, or wire names.",
        ),
        (lambda: LOG.consumer("billing", batch="yes"), "batch is 'yes'; give True or False."),
        (lambda: LOG.consumer("billing", settings={}), "settings is {}; give rowbus.ConsumerSettings(…)."),
        (
            lambda: ENDPOINT("S").every(5)(dict),
            "5 is no schedule: give a datetime.timedelta, or a cron expression as in '0 7 * * mon-fri'.",
        ),
        (lambda: asyncio.run(ENDPOINT("S").stop(SPAN)), f"timeout is {SPAN!r}; give seconds, or None."),
        (lambda: asyncio.run(LOG.stop(SPAN)), f"timeout is {SPAN!r}; give seconds, or None."),
        (lambda: LOG.run(drain=5), "drain is 5; give a datetime.timedelta, or None."),
        (
            lambda: asyncio.run(REQUESTS.request("S", {}, dict, timeout=SPAN)),
            f"timeout is {SPAN!r}; give seconds, as in timeout=5.",
        ),
        (lambda: schedule_of("@reboot", None), "'@reboot' is no cron expression: Wrong number of fields."),
    ],
)
def test_a_sentence_names_what_is_of_a_wrong_type(make: Callable[[], object], text: str) -> None:
    with pytest.raises(rowbus.ConfigurationError) as raised:
        make()

    assert str(raised.value) == text


@every("body", [None, "text", 5, 2.5, True, [], (), {1}, frozenset()])
def test_what_no_handler_takes_is_not_sent(body: object) -> None:
    with pytest.raises(rowbus.MessageSerializationError) as raised:
        serialize(body, types=("Shop.Any",))

    assert str(raised.value) == (
        f"{body!r} is no message: send an object of a class (a dataclass, a msgspec.Struct, a pydantic model), or a "
        "dict or bytes with type=…. (Does what made it lack a `return`?)"
    )


@every("nickname, first", [("@daily", 2), ("@Hourly", 1), ("@weekly", 4), ("@midnight", 2)])
def test_nicknames_of_cron(nickname: str, first: int) -> None:
    """1 January 1970 was a Thursday."""
    evening = datetime(1970, 1, 1, 22, 30, tzinfo=UTC)

    tick = schedule_of(nickname, None).after(evening)

    assert tick == (
        datetime(1970, 1, 1, 23, tzinfo=UTC) if first == 1 else datetime(1970, 1, first, tzinfo=UTC)
    )
