"""The decisions about events that may have broken their connection or their process."""

from __future__ import annotations

from datetime import UTC, datetime

from rowbus.log.consumers import suspicion
from rowbus.log.consumers.suspicion import ANY_EVENT, LEFT, UNEXPLAINED, Doubt, Note, Suspicion
from rowbus.log.event import Event
from tests.fixtures.every import every

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def event(number: int, retry: int | None = None) -> Event:
    return Event(number, NOW, 1, retry, "type", "data", None, None, None, None)


def events(count: int) -> list[Event]:
    return [event(number) for number in range(1, count + 1)]


@every("poison", range(1, 18))
@every("explained", [True, False])
def test_halving_finds_the_one_event_that_breaks_what_handles_it(poison: int, *, explained: bool) -> None:
    left, suspected, done, convicted, losses = events(17), None, list[int](), list[int](), 0
    while left:
        part = left[: suspicion.size(left, suspected)] if suspected else left
        if suspected and suspicion.is_convicted(part, suspected):
            convicted.append(part[0].id)
        elif poison in {each.id for each in part}:
            suspected = suspicion.lost(part, suspected, explained=explained)
            losses += 1
            continue
        else:
            done += [each.id for each in part]
        left = left[len(part) :]
    assert convicted == [poison]
    assert done == [number for number in range(1, 18) if number != poison]
    assert losses <= 6 + (0 if explained else UNEXPLAINED)


def test_an_event_that_is_being_retried_is_handled_alone() -> None:
    given = [event(1), event(2), event(3, retry=1), event(4), event(5), event(6), event(7), event(8)]
    suspected = suspicion.lost(given, None, explained=True)
    assert suspicion.size(given, suspected) == 2
    assert suspicion.size(given[2:], suspected) == 1


def test_a_batch_in_hand_is_in_doubt_only_if_it_was_left_or_noted() -> None:
    assert suspicion.doubt([], 1, 0, interrupted=False) is None
    assert suspicion.doubt([], 1, 0, interrupted=True) == LEFT
    assert suspicion.doubt([Note(1, 0, 5, 2)], 1, 0, interrupted=True) == Doubt(5, 3)
    assert suspicion.doubt([Note(1, 0, 5, 2)], 3, 0, interrupted=True) == Doubt(ANY_EVENT, 1)


def test_what_was_only_left_is_first_handled_as_before() -> None:
    given = events(8)
    assert suspicion.size(given, suspicion.suspect(LEFT, given)) == 8
    assert suspicion.size(given, suspicion.suspect(Doubt(8, 1), given)) == 4


def test_unexplained_losses_count_only_of_an_event_alone_and_in_a_row() -> None:
    one = events(1)
    suspected = suspicion.suspect(LEFT, one)
    for _ in range(UNEXPLAINED):
        assert not suspicion.is_convicted(one, suspected)
        noted = suspicion.noted_losses(one, suspected)
        found = suspicion.doubt([Note(1, 0, 1, noted)], 1, 0, interrupted=True)
        assert found is not None
        suspected = suspicion.suspect(found, one)
    assert suspicion.is_convicted(one, suspected)
    assert not suspicion.is_convicted(one, Suspicion(1, 9, alone=False, explained=True))
