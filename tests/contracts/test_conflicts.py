"""Endpoints that run and break each other: what one sends, and another's handler of it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus import contracts
from rowbus.contracts.conflicts import diagnose_different_programs, find_conflicts
from rowbus.contracts.contract import PublishedContract

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 11, 28, tzinfo=UTC)
NOWHERE = "postgresql://nowhere/shop"


def message(
    declare: Callable[..., Any], fields: dict[str, Any], *, base: type = object, name: str = "Placed"
) -> Any:  # noqa: ANN401 - a class
    kind = type(name, (base,), {"__annotations__": fields, "__module__": __name__})
    return declare(f"Shop.{name}")(dataclass(kind))


def sending(name: str, kind: Any, *, to: str = "") -> rowbus.Endpoint:  # noqa: ANN401 - a class
    endpoint = rowbus.Endpoint(name, database=NOWHERE)

    @endpoint.handler(f"Shop.Begin{name}")
    async def begin(_: dict[str, object], context: rowbus.Context) -> None:
        await context.send_local(kind(1))

    if to:
        endpoint.route(kind, to=to)
    return endpoint


def handling(name: str, *kinds: Any) -> rowbus.Endpoint:  # noqa: ANN401 - classes
    endpoint = rowbus.Endpoint(name, database=NOWHERE)
    for kind in kinds:

        async def handle(message: object) -> None: ...

        handle.__annotations__["message"] = kind
        endpoint.handler(handle)
    return endpoint


def published(*endpoints: rowbus.Endpoint) -> list[PublishedContract]:
    return [
        PublishedContract(one.name, str(number), contracts.describe(one), NOW, NOW)
        for number, one in enumerate(endpoints)
    ]


def found(*endpoints: rowbus.Endpoint) -> list[str]:
    return [f"{one.message}: {one.text}" for one in find_conflicts(published(*endpoints))]


OLD, NEW = {"order_id": int}, {"order_id": int, "amount": int}
REQUIRED = "`amount` is required, and not there"


def test_a_field_that_a_handler_requires_and_a_sender_does_not_write_is_named() -> None:
    sales, billing = (
        sending("Sales", message(rowbus.event, OLD)),
        handling("Billing", message(rowbus.event, NEW)),
    )

    assert found(sales, billing) == [
        f"Shop.Placed: Billing handles it, and Sales publishes another: {REQUIRED}"
    ]
    assert (
        found(sending("Sales", message(rowbus.event, NEW)), handling("Billing", message(rowbus.event, OLD)))
        == []
    )


def test_what_is_handled_as_a_parent_is_compared_with_the_parent() -> None:
    parent = message(rowbus.event, OLD, name="IPlaced")
    child = message(rowbus.event, {}, base=parent)
    wider = message(rowbus.event, NEW, name="IPlaced")

    assert found(sending("Sales", child), handling("Billing", wider)) == [
        f"Shop.Placed: Billing handles it, and Sales publishes another: {REQUIRED}"
    ]
    assert found(sending("Sales", child), handling("Billing", parent)) == []


@pytest.mark.parametrize("to, count", [("Billing", 1), ("Archive", 0)])
def test_a_command_is_compared_with_the_handlers_of_the_queue_that_it_goes_to(to: str, count: int) -> None:
    old, new = (message(rowbus.command, fields) for fields in (OLD, NEW))

    assert len(found(sending("Sales", old, to=to), handling("Billing", new))) == count


def test_versions_of_one_endpoint_that_run_side_by_side_are_told_apart() -> None:
    kinds = [message(rowbus.event, fields) for fields in (OLD, NEW)]
    publishing = sending("Sales", kinds[0])

    assert found(publishing, *(handling("Billing", kind) for kind in kinds)) == [
        f"Shop.Placed: Billing (version 2) handles it, and Sales publishes another: {REQUIRED}"
    ]
    assert found(publishing, publishing) == []


def test_programs_of_one_endpoint_of_which_each_handles_more_are_told_of() -> None:
    order, place, cancel = (message(rowbus.command, OLD, name=name) for name in ("Order", "Place", "Cancel"))

    def told(*endpoints: rowbus.Endpoint) -> list[tuple[str, str]]:
        findings = diagnose_different_programs(published(*endpoints))
        return [(one.subject, one.text) for one in findings]

    one, other = handling("Sales", order, place), handling("Sales", order, cancel)
    assert told(one, other) == [
        ("Sales", "version 0 alone handles Shop.Place, version 1 alone handles Shop.Cancel")
    ]
    assert told(one, handling("Sales", order, place, cancel)) == []  # the next version
    assert told(one, handling("Billing", cancel)) == []
