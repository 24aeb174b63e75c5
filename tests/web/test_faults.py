"""The day on call with faults is whole: what it measures there is; `python -m tests.web.day --faults` measures it."""

from __future__ import annotations

import re

from tests.fixtures.places import ROOT
from tests.web.day import faults, last_fault


def test_a_day_has_fourteen_faults_and_only_alerts_that_there_are() -> None:
    day = [*faults(), last_fault()]
    rules = (ROOT / "deploy/prometheus/rowbus.rules.yml").read_text()

    assert len({fault.name for fault in day}) == 14
    named = {name for fault in day for name in re.findall("^Rowbus[A-Za-z]+", fault.alert)}
    assert named <= set(re.findall("alert: (Rowbus[A-Za-z]+)", rules))
    assert all(fault.page or fault.role for fault in day if fault.doctor)
