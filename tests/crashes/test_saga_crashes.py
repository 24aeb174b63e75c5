"""Workers are killed while sagas go on: each transition is there exactly once, none is lost, and no timeout is early.

The messages of all sagas are in the queue from the beginning, each of them twice, in random order; a kill is at a
random moment of the progress. `python -m tests.crashes.sagas` does the same with more sagas, for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crashes.sagas import STEPS, Plan, Scene

pytestmark = [pytest.mark.slow, pytest.mark.one_version, pytest.mark.timeout(1800)]

SAGAS = 150
KILLS = 4
PLANS = {
    "singles": Plan(SAGAS),
    "batches": Plan(SAGAS, batch_size=20),
    "dotnets-layout": Plan(SAGAS, layout="nservicebus"),
}


@pytest.fixture(params=list(PLANS.values()), ids=list(PLANS))
def scene(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, database, request.param)
    yield scene
    scene.end()


def test_each_transition_happens_once_whichever_worker_is_killed(scene: Scene) -> None:
    scene.send()
    scene.start()
    for moment in sorted(scene.chance.sample(range(1, SAGAS * len(STEPS)), KILLS)):
        scene.await_transitions(moment)
        scene.kill()
    scene.finish()

    assert scene.wrong() == []
    assert scene.kills == KILLS
