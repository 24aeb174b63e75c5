"""The contract on time: the earliest due message first, none early, and `next` knows of all of them.

Invariant: these tests hold with any clock and time zone of the machine.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rowbus.testing.delayed_store.stores import (
    EXACT,
    LATER,
    NOON,
    ROUNDED,
    Contract,
    empty,
    fetch,
    glance,
    make_message,
    minutes,
    removes,
    require,
    require_next,
    require_same,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from rowbus.testing.delayed_store.stores import Stores


class OrderContract(Contract):
    """What is due when."""

    def test_nothing_is_fetched_before_it_is_due(self) -> None:
        """Fetching looks at the instant it is given, not at a clock."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1", NOON))
            require(await fetch(store, NOON - 2 * EXACT) is None, "a message was fetched before it was due")
            require(
                await glance(store, NOON + ROUNDED) is not None, "a message was not fetched when it was due"
            )
            await store.store(make_message("2", LATER))
            require(
                (found := await fetch(store, LATER - timedelta(days=1))) is None or found.message_id == "1",
                "a message of the far future was fetched before it was due",
            )

        self.run(check)

    def test_the_earliest_message_is_fetched_first(self) -> None:
        """In any order of storing, and with any ids."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            for message_id, due in (("b", 3), ("d", 1), ("a", 2), ("c", 0.001)):
                await store.store(make_message(message_id, minutes(due)))
            found = await empty(store)
            require(
                found == ["c", "d", "a", "b"],
                f"messages due in the order c, d, a, b came in the order {found}",
            )

        self.run(check)

    def test_next_is_the_earliest_time_and_nothing_when_nothing_is_stored(self) -> None:
        """As an aware instant, also of a message that is not due for long, or long since."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await require_next(store, None, "of an empty store")
            for number, due in enumerate((LATER, minutes(60), LATER)):
                await store.store(make_message(str(number), due))
            await require_next(store, minutes(60), "the earliest of three")

        self.run(check)

    def test_next_knows_of_what_was_stored_since(self) -> None:
        """An earlier message counts from the moment it is stored, by any instance."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1", minutes(60)))
            await require_next(one, minutes(60), "the only one")
            await one.store(make_message("2", minutes(30)))
            await require_next(one, minutes(30), "though an earlier message was stored since")
            await other.store(make_message("3", minutes(10)))
            await require_next(
                one, minutes(10), "though another instance has stored an earlier message since"
            )

        self.run(check)

    def test_next_forgets_what_was_removed(self) -> None:
        """Then the one after it is next."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            for number in (1, 2):
                await one.store(make_message(str(number), minutes(number)))
            await require_next(other, minutes(1), "the earliest of two")
            await removes(one, make_message("1"))
            await require_next(other, minutes(2), "though the earlier message was removed since")

        self.run(check)

    def test_asking_for_the_next_takes_nothing(self) -> None:
        """`next` neither locks nor removes."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            for _ in range(2):
                await require_next(store, NOON, "the only one, asked for again")
            require_same(await glance(store), make_message("1"), "after `next` had been asked")

        self.run(check)

    def test_next_counts_what_is_in_hand(self) -> None:
        """A message that is locked is still stored."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1"))
            async with one.transaction() as mine:
                await fetch(mine)
                await require_next(other, NOON, "of a message that another instance has in hand")

        self.run(check)

    def test_times_do_not_depend_on_the_machines_time_zone(self) -> None:
        """An instant comes back as the same instant."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            await require_next(store, NOON, "on a machine whose time zone is not UTC")
            require(
                await fetch(store, NOON - timedelta(minutes=1)) is None,
                "on a machine whose time zone is not UTC a message was fetched before it was due",
            )
            require_same(
                await glance(store, NOON + ROUNDED),
                make_message("1"),
                "on a machine whose time zone is not UTC",
            )
            await removes(store, make_message("1"))

        for zone in ("XYZ-5:30", "XYZ+7"):
            with _time_zone(zone):
                self.run(check)


@contextmanager
def _time_zone(name: str) -> Generator[None]:
    """Set the machine's time zone for this process, where that can be done."""
    before = os.environ.get("TZ")
    try:
        _set_time_zone(name)
        yield
    finally:
        _set_time_zone(before)


def _set_time_zone(name: str | None) -> None:
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    if hasattr(time, "tzset"):
        time.tzset()
