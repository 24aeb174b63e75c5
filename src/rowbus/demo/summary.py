"""The summary of a run: its figures and its checks, all from the database.

A check counts what it looked at and what is wrong with it. The statements in `sql/checks/` can be run in psql.

Invariant: every figure comes from what the endpoints committed and from the database's clock. A check that looked at
nothing proves nothing, and shows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.demo.messages import (
    BANK_IS_ASKED_AGAIN_AFTER,
    ESTIMATE_IS_WANTED_FOR,
    PAYMENT_IS_DUE_AFTER,
)
from rowbus.demo.statements import ask

if TYPE_CHECKING:
    from rowbus.database.sessions import Session


class Check(NamedTuple):
    """The result of one check: the number of things looked at, of those that are wrong, and an example of one."""

    name: str
    title: str
    checked: int
    wrong: int
    example: str | None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.wrong == 0


class Analysed(NamedTuple):
    """Where the results of Analytics lie, and how many seconds it took."""

    archive: str
    report: str
    seconds: float


@dataclass(frozen=True)
class Summary:
    """The lines of the file, the seconds of the run, its figures (`sql/summary.sql` says which) and its checks."""

    lines: int
    seconds: float
    figures: dict[str, Any]
    spark: Analysed | None
    checks: list[Check]

    @property
    def passed(self) -> bool:
        """Whether every check has."""
        return all(check.passed for check in self.checks)

    def as_json(self) -> dict[str, object]:
        """Return the summary as what json.dumps takes."""
        tables = {name: rows for name, rows in self.figures.items() if name != "sidelines"}
        return {
            "passed": self.passed,
            "lines": self.lines,
            "seconds": round(self.seconds, 3),
            **tables,
            **self.figures["sidelines"],
            "spark": None if self.spark is None else self.spark._asdict(),
            "checks": [{**check._asdict(), "passed": check.passed} for check in self.checks],
        }


def summarize(session: Session, *, lines: int, seconds: float, spark: Analysed | None) -> Summary:
    """Reconcile, and ask for the figures; `seconds` is how long the whole run took, `spark` what Spark has made."""
    ((figures,),) = ask(session, "summary")
    checks = reconcile(session, lines=lines, with_spark=spark is not None)
    return Summary(lines, seconds, json.loads(figures), spark, checks)


def reconcile(session: Session, *, lines: int, with_spark: bool = False) -> list[Check]:
    """Run all checks, for a file of so many lines; call it when nothing changes any more."""
    parameters = {
        "lines": lines,
        "wanted_for": ESTIMATE_IS_WANTED_FOR,
        "due_after": PAYMENT_IS_DUE_AFTER,
        "again_after": BANK_IS_ASKED_AGAIN_AFTER,
    }
    names = ("orders", "messages", "spark") if with_spark else ("orders", "messages")
    return [
        Check(*found) for name in names for _place, *found in ask(session, f"checks/{name}", **parameters)
    ]
