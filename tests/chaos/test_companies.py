"""Faults that strike one system in the short form."""

from __future__ import annotations

from tests.chaos.__main__ import companies, split
from tests.chaos.faults import FAULTS


def test_faults_of_one_company_strike_one_system_and_all_others_their_own() -> None:
    assert companies(["kill-worker", "panic", "exit", "failover"]) == [
        ("panic", "exit"),
        ("kill-worker",),
        ("failover",),
    ]


def test_every_fault_is_in_one_run() -> None:
    runs = companies(list(FAULTS))

    assert sorted(name for run in runs for name in run) == sorted(FAULTS)
    assert sorted(run for part in split(runs) for run in part) == sorted(runs)
