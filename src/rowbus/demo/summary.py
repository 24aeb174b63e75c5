"""The figures of one run, asked from the database.

Invariant: every figure comes from what the endpoints committed and from the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rowbus.demo.analysing import Analysed
from rowbus.demo.reconciliation import Check, reconcile
from rowbus.demo.statements import ask

if TYPE_CHECKING:
    from rowbus.database.sessions import Session


class Outcome(NamedTuple):
    """How so many orders ended, and why."""

    outcome: str
    reason: str | None
    number: int


class Period(NamedTuple):
    """How fast orders went; the latency from being sent to the end, in seconds."""

    rush: bool
    orders: int
    seconds: float
    median: float
    p95: float
    p99: float
    most: float


class Load(NamedTuple):
    """How many messages an endpoint has handled; `in_rush` of them in the `seconds` of the rush."""

    endpoint: str
    messages: int
    in_rush: int
    seconds: float


class Failure(NamedTuple):
    """Messages in the error queue that have the same story."""

    endpoint: str
    message_type: str
    exception: str
    explanation: str
    number: int


class Sidelines(NamedTuple):
    """What is not about single orders.

    Charges that worked when retried at once, when retried later, and when put back from the error queue; orders whose
    payment was due, and those reminded of it; questions asked, and those answered before they expired.
    """

    retried: int
    retried_later: int
    put_back: int
    due: int
    reminded: int
    asked: int
    answered: int


class Books(NamedTuple):
    """How many changes Bookkeeping has booked from the log, in how many batches, and how many seconds behind."""

    events: int
    batches: int
    behind: float


@dataclass(frozen=True)
class Summary:
    """All there is to tell."""

    lines: int
    seconds: float
    outcomes: list[Outcome]
    periods: list[Period]
    loads: list[Load]
    failures: list[Failure]
    sidelines: Sidelines
    books: Books
    spark: Analysed | None
    checks: list[Check]

    @property
    def passed(self) -> bool:
        """Whether every check has."""
        return all(check.passed for check in self.checks)

    def as_json(self) -> dict[str, object]:
        """Return it as what json.dumps takes."""
        return {
            "passed": self.passed,
            "lines": self.lines,
            "seconds": round(self.seconds, 3),
            "outcomes": [outcome._asdict() for outcome in self.outcomes],
            "periods": [period._asdict() for period in self.periods],
            "endpoints": [load._asdict() for load in self.loads],
            "failures": [failure._asdict() for failure in self.failures],
            **self.sidelines._asdict(),
            "books": self.books._asdict(),
            "spark": None if self.spark is None else self.spark._asdict(),
            "checks": [{**check._asdict(), "passed": check.passed} for check in self.checks],
        }


def summarize(session: Session, *, lines: int, seconds: float, spark: Analysed | None) -> Summary:
    """Reconcile, and ask for the figures; `seconds` is how long the whole run took, `spark` what Spark has made."""
    (sidelines,) = ask(session, "report/sidelines", Sidelines._make)
    (books,) = ask(session, "report/books", Books._make)
    return Summary(
        lines=lines,
        seconds=seconds,
        outcomes=ask(session, "report/outcomes", Outcome._make),
        periods=ask(session, "report/speed", Period._make),
        loads=ask(session, "report/endpoints", Load._make),
        failures=ask(session, "report/failures", Failure._make),
        sidelines=sidelines,
        books=books,
        spark=spark,
        checks=reconcile(session, lines=lines, with_spark=spark is not None),
    )
