"""The checker finds each kind of wrong history, and finds nothing in one that is right."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.checker import Verdict, check
from tests.chaos.history import STAGES, Effect, History, Outage, Outcome, Send, Tick
from tests.fixtures.every import every

LATE = 100.0


def sent(
    number: int, kind: str = "command", outcome: Outcome = Outcome.COMMITTED, *, ready: float = 0.0
) -> Send:
    return Send(number, kind, outcome, ready or float(number))


def effect(
    position: int,
    stage: str,
    number: int,
    at: float | None = None,
    *,
    due: float | None = None,
    again: bool = False,
) -> Effect:
    return Effect(position, stage, number, 1, float(position) if at is None else at, due, again)


def all_effects(number: int, kind: str = "command", *, at: float = 1.0) -> list[Effect]:
    return [effect(index, stage, number, at) for index, stage in enumerate(STAGES[kind])]


def judge(sends: list[Send], effects: list[Effect], **more: object) -> Verdict:
    return check(replace(History(tuple(sends), tuple(effects)), **more))  # type: ignore[arg-type] # by name


@every("kind", sorted(STAGES))
def test_a_right_history_has_nothing_wrong(kind: str) -> None:
    poisons = frozenset({1}) if "poison" in kind else frozenset[int]()

    assert judge([sent(1, kind)], all_effects(1, kind), failed=poisons).wrong == []


FINDINGS: dict[str, tuple[str, object, Verdict]] = {
    "a committed send lacks its follow-up": (
        "lost",
        (("follow-up", 1),),
        judge([sent(1)], [each for each in all_effects(1) if each.stage != "follow-up"]),
    ),
    "a send whose outcome is unknown is there by half": (
        "lost",
        (("follow-up", 1), ("reply", 1)),
        judge([sent(1, outcome=Outcome.UNKNOWN)], all_effects(1)[:1]),
    ),
    "an effect is there twice": (
        "doubled",
        (("reply", 1),),
        judge([sent(1)], [*all_effects(1), effect(9, "reply", 1, 1.0)]),
    ),
    "an effect comes before its due time": (
        "early",
        (("delayed", 1),),
        judge(
            [sent(1, "delayed")],
            [effect(1, "delayed", 1, 4.9, due=5.0), effect(2, "delayed follow-up", 1, 6.0, due=5.5)],
        ),
    ),
    "events of one producer come in another order": (
        "disordered",
        (("event", 1),),
        judge([sent(1, "event"), sent(2, "event")], [effect(1, "event", 2), effect(2, "event", 1)]),
    ),
    "an event that is delivered again is out of the order": (
        "disordered",
        (),
        judge(
            [sent(1, "event"), sent(2, "event")], [effect(1, "event", 2), effect(2, "event", 1, again=True)]
        ),
    ),
    "messages of one key come in another order than they were committed, by whomever": (
        "disordered",
        (("keyed", 13),),
        judge(
            [replace(sent(12, "keyed"), place=2), replace(sent(13, "keyed"), place=1)],
            [effect(1, "keyed", 12, 12.0), effect(2, "keyed", 13, 13.0)],
        ),
    ),
    "events of one key and producer come in another order": (
        "disordered",
        (("keyed event", 12),),
        judge(
            [sent(12, "keyed-event"), sent(24, "keyed-event")],
            [effect(1, "keyed event", 24, 24.0), effect(2, "keyed event", 12, 24.0)],
        ),
    ),
    "a key stands still while others go on": (
        "gap",
        4.0,
        judge(
            [sent(12, "keyed", ready=1.0), sent(14, "keyed", ready=2.0)],
            [effect(1, "keyed", 14, 3.0), effect(2, "keyed", 12, 5.0)],
        ),
    ),
    "a poison is not in the error queue": (
        "loose",
        (1,),
        judge([sent(1, "poison"), sent(2)], all_effects(2)),
    ),
    "a poison took effect": (
        "loose",
        (1,),
        judge(
            [sent(1, "poison"), sent(2)],
            [*all_effects(2), effect(9, "command", 1, 1.0)],
            failed=frozenset({1}),
        ),
    ),
    "time without work is no gap": (
        "gap",
        1.0,
        judge([sent(1), sent(2, ready=LATE)], [*all_effects(1), *all_effects(2, at=LATE + 1)]),
    ),
    "time without a database is no gap": (
        "gap",
        4.0,
        judge([sent(1), sent(2)], [*all_effects(1), *all_effects(2, at=LATE)], outages=(Outage(3, 97),)),
    ),
    "time without a database is no wait": (
        "gap",
        LATE - 1 - 94,
        judge([sent(1)], all_effects(1, at=LATE), is_strict=True, outages=(Outage(3, 97),)),
    ),
    "a delayed retry is not timed: its first attempt leaves no trace": (
        "gap",
        0.0,
        judge([sent(1, "retried")], all_effects(1, "retried", at=LATE)),
    ),
    "what a fault sent may wait for its end": (
        "gap",
        0.0,
        judge([sent(1, "aside")], all_effects(1, "aside", at=LATE), is_strict=True),
    ),
    "a handler found what another had left": (
        "strange",
        (("command", 1), ("follow-up", 1), ("reply", 1)),
        judge([sent(1)], [replace(each, found="tenant 2") for each in all_effects(1)]),
    ),
    "a program ended by itself": ("ended", ("work",), judge([sent(1)], all_effects(1), ended=("work",))),
    "an effect was there without the standby": (
        "unconfirmed",
        (("follow-up", 1),),
        judge([sent(1)], all_effects(1), unconfirmed=(1,)),
    ),
}
"""Under what happened: a part of the verdict, what it is to be, and the verdict."""


@every("what", FINDINGS)
def test_a_history_shows_what_happened(what: str) -> None:
    part, expected, verdict = FINDINGS[what]

    assert getattr(verdict, part) == expected
    assert verdict.good == (not expected or part == "gap")


def test_a_send_whose_outcome_is_unknown_may_be_there_or_not() -> None:
    assert judge([sent(1, outcome=Outcome.UNKNOWN), sent(2)], all_effects(2, at=2)).good
    assert judge([sent(1, outcome=Outcome.UNKNOWN)], all_effects(1)).lost == ()


@every("sends", [[sent(1)], [sent(1), sent(2, outcome=Outcome.FAILED)]])
def test_an_effect_of_what_was_not_sent_is_invented(sends: list[Send]) -> None:
    assert judge(sends, [*all_effects(1), effect(9, "command", 2, 1.0)]).invented == (("command", 2),)


def test_a_healthy_message_in_the_error_queue_has_failed_and_is_not_lost() -> None:
    verdict = judge([sent(1), sent(2)], all_effects(2), failed=frozenset({1}))

    assert (verdict.failed, verdict.lost) == ((1,), ())


@every("tick", [Tick(2, 0.5, 10, 10), Tick(2, 2.0, 9, 10), Tick(2, 2.0, 10, 9)])
def test_a_tick_behind_the_one_before_goes_back(tick: Tick) -> None:
    assert judge([sent(1)], all_effects(1), ticks=(Tick(1, 1.0, 10, 10), tick)).back == (2,)


def test_work_that_waits_while_nothing_is_done_stands_still() -> None:
    verdict = judge([sent(1), sent(2)], [*all_effects(1), *all_effects(2, at=LATE)])

    assert verdict.gap == LATE - 2
    assert verdict.wrong == ["healthy work (command) stood still for 98.0 s, at most 5 s allowed"]
    assert verdict.is_only_slow
    assert not judge([sent(1), sent(2)], [*all_effects(2, at=LATE)]).is_only_slow


def test_delayed_work_waits_from_its_due_time_on() -> None:
    effects = [
        effect(1, "delayed", 1, LATE, due=LATE - 1),
        effect(2, "delayed follow-up", 1, LATE + 3, due=LATE + 1),
    ]

    verdict = judge([sent(1, "delayed")], effects)

    assert (verdict.gap, verdict.lateness) == (2.0, 2.0)


def test_a_message_that_waits_while_others_are_handled_is_wrong_where_each_is_to_be_handled() -> None:
    sends = [sent(1), *(sent(n, ready=float(n)) for n in range(2, 10))]
    effects = [each for n in range(2, 10) for each in all_effects(n, at=float(n))] + all_effects(1, at=9.0)

    assert judge(sends, effects).good
    assert judge(sends, effects, is_strict=True).wrong == [
        "a healthy message (command) waited for 8.0 s, at most 5 s allowed"
    ]


def test_a_fault_is_not_judged_by_what_others_sent() -> None:
    poison, other = sent(1, "poison"), sent(2, "poison")
    history = History(
        (replace(poison, fault="panic"), replace(other, fault="exit"), sent(3)), tuple(all_effects(3, at=3.0))
    )
    history = replace(history, failed=frozenset({1}))

    assert check(history.part("panic")).good
    assert check(history.part("exit")).loose == (2,)


def test_a_run_that_sent_nothing_proves_nothing() -> None:
    assert judge([], []).wrong == ["nothing was sent"]
