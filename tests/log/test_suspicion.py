"""The decisions about events that may have broken their connection or their process."""

from __future__ import annotations

from datetime import UTC, datetime

from rowbus.log.consumers import policy
from rowbus.log.consumers.policy import ANY_EVENT, LEFT, UNEXPLAINED, Doubt, Note, Suspicion
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
        part = left[: policy.size(left, suspected)] if suspected else left
        if suspected and policy.is_convicted(part, suspected):
            convicted.append(part[0].id)
        elif poison in {each.id for each in part}:
            suspected = policy.lost(part, suspected, explained=explained)
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
    suspected = policy.lost(given, None, explained=True)
    assert policy.size(given, suspected) == 2
    assert policy.size(given[2:], suspected) == 1


def test_a_batch_in_hand_is_in_doubt_only_if_it_was_left_or_noted() -> None:
    assert policy.doubt([], (1, 0), interrupted=False) is None
    assert policy.doubt([], (1, 0), interrupted=True) == LEFT
    assert policy.doubt([Note(1, 0, 5, 2)], (1, 0), interrupted=True) == Doubt(5, 3)
    assert policy.doubt([Note(1, 0, 5, 2)], (3, 0), interrupted=True) == Doubt(ANY_EVENT, 1)


def test_what_was_only_left_is_first_handled_as_before() -> None:
    given = events(8)
    assert policy.size(given, policy.suspect(LEFT, given)) == 8
    assert policy.size(given, policy.suspect(Doubt(8, 1), given)) == 4


def test_unexplained_losses_count_only_of_an_event_alone_and_in_a_row() -> None:
    one = events(1)
    suspected = policy.suspect(LEFT, one)
    for _ in range(UNEXPLAINED):
        assert not policy.is_convicted(one, suspected)
        noted = policy.noted_losses(one, suspected)
        found = policy.doubt([Note(1, 0, 1, noted)], (1, 0), interrupted=True)
        assert found is not None
        suspected = policy.suspect(found, one)
    assert policy.is_convicted(one, suspected)
    assert not policy.is_convicted(one, Suspicion(1, 9, alone=False, explained=True))
