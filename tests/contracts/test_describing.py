"""A contract says what endpoints take, send and publish, as their registrations say it."""

from __future__ import annotations

from typing import Any

import pytest

import rowbus
from rowbus import contracts
from rowbus.contracts import Action, Contract, Use
from rowbus.errors import ConfigurationError
from tests.contracts import shop

SHOP = contracts.describe(shop.sales, shop.billing, title="Shop")
QUEUE = '"public"."{}"'


def uses(contract: Contract, action: Action) -> dict[tuple[str, str], Use]:
    return {(one.endpoint, one.message): one for one in contract.uses_of_action(action)}


def test_handlers_say_what_an_endpoint_takes_and_which_events_it_subscribes_to() -> None:
    handled = uses(SHOP, Action.HANDLE)

    assert {name for endpoint, name in handled if endpoint == "Billing"} == {
        "Shop.ChargeCard",
        "Shop.IOrderEvent",
        "Shop.Report",
        "Shop.Raw",
    }
    assert [name for (_, name), use in handled.items() if use.is_subscribed] == ["Shop.IOrderEvent"]


def test_a_saga_says_what_it_is_found_by_and_which_messages_are_its_timeouts() -> None:
    handled = uses(SHOP, Action.HANDLE)

    placed, overdue = handled["Sales", "Shop.PlaceOrder"], handled["Sales", "Shop.PaymentOverdue"]
    assert (placed.saga, placed.found_by, placed.is_timeout) == ("Shop.OrderProcess", "order_id", False)
    assert (overdue.saga, overdue.is_timeout) == ("Shop.OrderProcess", True)


def test_what_handlers_name_is_sent_published_or_replied_by_its_kind() -> None:
    sent = uses(SHOP, Action.SEND)

    assert set(uses(SHOP, Action.PUBLISH)) == {("Sales", "Shop.OrderPlaced")}
    assert set(uses(SHOP, Action.REPLY)) == {("Billing", "Shop.CardCharged")}
    assert sent["Sales", "Shop.PaymentOverdue"].to == QUEUE.format("Sales")
    assert sent["Sales", "Shop.ChargeCard"].to == QUEUE.format("Billing")


def test_a_recurring_message_is_sent_at_its_schedule() -> None:
    report = uses(SHOP, Action.SEND)["Sales", "Shop.Report"]

    assert (report.to, report.schedule) == (QUEUE.format("Billing"), "report: 0 7 * * * UTC")


def test_a_type_has_its_kind_its_parents_and_the_first_paragraph_of_its_class() -> None:
    placed, order = SHOP.message("Shop.OrderPlaced"), SHOP.message("Shop.PlaceOrder")

    assert placed is not None
    assert order is not None
    assert (placed.kind.value, placed.parents) == ("event", ("Shop.IOrderEvent",))
    assert (order.kind.value, order.description) == ("command", "To Sales: a customer wants this.")


def test_what_a_handler_takes_as_a_dictionary_may_be_anything() -> None:
    raw, report = SHOP.message("Shop.Raw"), SHOP.message("Shop.Report")

    assert raw is not None
    assert report is not None
    assert raw.payload == {}
    assert report.payload != {}, "the class that Sales sends says more than Billing's dictionary"


def test_a_module_wide_route_and_a_closure_are_seen() -> None:
    endpoint = rowbus.Endpoint("Web", database="postgresql://nowhere/shop")
    endpoint.route_module(shop, to="Billing")
    kind = shop.ChargeCard

    @endpoint.handler("Shop.Start")
    async def start(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.send(kind(**message))

    sent = uses(contracts.describe(endpoint), Action.SEND)
    assert sent["Web", "Shop.ChargeCard"].to == QUEUE.format("Billing")


def test_the_consumers_of_a_log_are_told() -> None:
    log = rowbus.Log("postgresql://nowhere/shop", "orders")

    @log.consumer("revenue")
    def count(event: rowbus.Event) -> None:
        pass

    assert contracts.describe(log).readers == (contracts.LogReader("orders", "revenue"),)


def test_what_is_no_endpoint_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'Sales' is neither a rowbus\.Endpoint nor a rowbus\.Log"):
        contracts.describe("Sales")  # type: ignore[arg-type]  # what users give
