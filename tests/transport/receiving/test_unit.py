"""The size of a slot's next unit, where an endpoint leaves it to the receiver."""

from __future__ import annotations

from rowbus.transport.receiving.decisions import Unit


def sizes(unit: Unit, *handled: tuple[int, float]) -> list[int]:
    found = []
    for count, seconds in handled:
        unit.handled(count, seconds)
        found.append(unit.size)
    return found


def test_a_unit_doubles_while_messages_wait_and_their_handlers_are_quick() -> None:
    quick = [(size, size * 0.00001) for size in (1, 2, 4, 8, 16, 32, 64, 100)]

    assert sizes(Unit("auto"), *quick) == [2, 4, 8, 16, 32, 64, 100, 100]


def test_handlers_of_a_unit_take_no_more_than_ten_milliseconds_together() -> None:
    assert sizes(Unit("auto"), (1, 0.001), (2, 0.004), (4, 0.008), (5, 5.0)) == [2, 4, 5, 1]


def test_a_unit_is_small_again_when_little_waits_and_one_at_rest() -> None:
    unit = Unit("auto")

    assert sizes(unit, (1, 0), (2, 0), (4, 0), (3, 0)) == [2, 4, 8, 3]
    unit.begin_anew()
    assert unit.size == 1


def test_a_number_is_the_size_of_every_unit() -> None:
    assert sizes(Unit(10), (1, 5.0), (10, 0.0)) == [10, 10]
