"""Every state of the models is right, and each mutant of a model has one that is not."""

from __future__ import annotations

from tests.chaos.models.exploration import explore
from tests.chaos.models.leasing import Leasing
from tests.chaos.models.moving import Moving
from tests.chaos.models.receiving import Receiving
from tests.chaos.models.taking_over import TakingOver
from tests.fixtures.every import every

AnyModel = Receiving | Moving | TakingOver | Leasing


@every("model", [Receiving(), Moving(), TakingOver(), Leasing()], ids=lambda model: type(model).__name__)
def test_no_order_of_steps_and_faults_leads_to_a_wrong_state(model: AnyModel) -> None:
    found = explore(model)  # type: ignore[misc] # each model has states of its own

    assert found.wrong is None, found.steps
    assert found.states > 100


@every(
    "mutant, wrong",
    [
        (Receiving("outages count"), "a healthy message is in the error queue"),
        (Receiving("counted in memory"), "the poison was tried too often"),
        (Receiving("error queue first"), "a message is in two places"),
        (Receiving("sends outside"), "a follow-up is doubled"),
        (Moving("no lock"), "a message is in two places"),
        (Moving("copy first"), "a message is in two places"),
        (Moving("own clock"), "a message is early"),
        (Moving("delete first"), "a message is lost"),
        (TakingOver("no mark"), "an event took effect twice"),
        (TakingOver("position first"), "an event took effect before the one before it"),
        (TakingOver("no silence limit"), "the log stands still"),
        (Leasing("no fence"), "a late one took effect"),
        (Leasing("no lock"), "a late one took effect"),
        (Leasing("one epoch"), "a late one took effect"),
        (Leasing("removed first"), "the work is lost"),
        (Leasing("no lapse"), "the work stands still"),
        (Leasing("no silence limit"), "the work stands still"),
    ],
    ids=lambda given: getattr(given, "mutant", ""),
)
def test_each_mutant_of_a_model_is_found(mutant: AnyModel, wrong: str) -> None:
    found = explore(mutant)  # type: ignore[misc] # as above

    assert found.wrong == wrong, found.steps
