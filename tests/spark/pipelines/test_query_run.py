"""A run of a query says how far it is, and begins again after faults that pass, from what Spark reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from rowbus import errors
from rowbus.errors import ConfigurationError, ConsumerBusyError, RowbusError, StorageError
from rowbus.spark.pipelines import policy
from rowbus.spark.pipelines.policy import JAVA_ENDED, TRIES, Failures, explain, pause_before
from rowbus.spark.pipelines.query_run import Progress, Stop, keep_running, run
from rowbus.spark.session import loaded
from tests.fixtures.every import every
from tests.spark.observation.reports import BATCH, report

LOST = (
    "Traceback…\nrowbus.errors.ConnectionLostError: Could not read: terminating connection\n\tat org.apache"
)


class Query:
    """A query of Spark's that ends at the second look, having reported these batches, or fails there."""

    def __init__(self, *reports: dict[str, Any], fails: Exception | None = None) -> None:
        self.recentProgress = reports
        self._looks = 0
        self._fails = fails

    def awaitTermination(self, _timeout: float) -> bool:  # noqa: N802 - Spark's name
        self._looks += 1
        if self._looks > 1 and self._fails:
            raise self._fails
        return self._looks > 1

    def stop(self) -> None: ...


def beginning(*queries: Query) -> Callable[[], Any]:
    """Give what begins one query after the other."""
    following = iter(queries)
    return lambda: cast("Any", next(following))


def test_progress_counts_and_says_how_far_the_log_is_ahead() -> None:
    (source,) = report()["sources"]
    texts = source | {name: json.dumps(source[name]) for name in ("endOffset", "latestOffset")}
    told: list[Progress] = []

    query = Query(report(), report() | {"batchId": BATCH + 1, "sources": [texts]})
    done = keep_running(beginning(query), watch=told.append)

    assert done == Progress(2, 80, ticks_behind=2, seconds_behind=4.0, ends={"orders": 20})
    assert told == [done, done]


def test_a_query_begins_again_after_faults_that_pass_and_counts_each_batch_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rowbus.spark")
    monkeypatch.setattr(policy, "FIRST_PAUSE", 0.0)
    lost = Exception(LOST)
    # One attempt more than may fail in a row, and each comes to a batch.
    crashing = [
        Query(report() | {"batchId": batch}, fails=Exception("crashed")) for batch in range(TRIES + 1)
    ]
    endless = [Query(fails=lost) for _ in range(3 * TRIES)]
    endless.append(
        Query(fails=Exception("altered"))
    )  # the first of its kind: what passes counts against no other
    again = Query(report() | {"batchId": TRIES + 1})
    assert keep_running(beginning(*crashing, *endless, again)).batches == len(crashing) + 1
    outages = [each.getMessage() for each in caplog.records][-2:]
    assert outages[0].startswith("The query fails; trying again until it works: ")
    assert outages[1] == f"The query works again after {1 + len(endless)} failures."

    with pytest.raises(StorageError, match="crashed"):
        keep_running(beginning(*[Query(fails=Exception("crashed")) for _ in range(TRIES + 1)]))
    with pytest.raises(ConfigurationError, match="no"):
        keep_running(beginning(Query(fails=Exception("rowbus.errors.ConfigurationError: no"))))


class Maker:
    """Stands in for Spark's session, and for a reader of its that fails in turn until there are no more faults."""

    def __init__(self, *faults: str) -> None:
        self._faults = [*faults]
        self.registered = 0

    def load(self) -> Any:  # noqa: ANN401 - Spark's
        if self._faults:
            raise Exception(self._faults.pop(0))  # noqa: TRY002 - as Spark's are for us
        return self

    def trigger(self, **_when: object) -> Maker:
        return self

    def queryName(self, _name: str) -> Maker:  # noqa: N802 - Spark's name
        return self

    def start(self) -> Query:
        return Query(report())

    @property
    def dataSource(self) -> Maker:  # noqa: N802 - Spark's name
        return self

    def register(self, _source: object) -> None:
        self.registered += 1


def test_what_is_killed_while_a_stream_is_loaded_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark looks for formats once: where that was killed, it is told of ours."""
    monkeypatch.setattr(policy, "FIRST_PAUSE", 0.0)
    unknown = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: rowbus."
    maker: Any = Maker("Python worker exited unexpectedly (crashed)", unknown)
    assert run(lambda: loaded(maker, maker), follow=True, name="loaded").batches == 1  # type: ignore[arg-type, return-value] # a stand-in
    assert maker.registered == 1


def test_a_stop_ends_the_wait_for_the_next_attempt() -> None:
    stop = Stop()

    def begin() -> Any:  # noqa: ANN401 - a query of Spark's
        stop()
        raise Exception(LOST)  # noqa: TRY002 - as Spark's are for us

    assert keep_running(begin, stop=stop) == Progress(0, 0)


def named(name: str, message: str) -> Exception:
    kind: type[Exception] = type(name, (Exception,), {})
    return kind(message)


@every(
    "error, kind, again, last",
    [
        (Exception(LOST), errors.ConnectionLostError, 1, None),
        (
            Exception("rowbus.errors.TransactionConflictError: 40001"),
            errors.TransactionConflictError,
            1,
            None,
        ),
        (Exception("Python worker failed to connect back."), StorageError, 1, TRIES),
        (Exception("Python worker exited unexpectedly (crashed)"), StorageError, 1, TRIES),
        (Exception("rowbus.errors.StorageError: disk full"), StorageError, 1, TRIES),
        (Exception("rowbus.errors.ConsumerBusyError: Another query"), ConsumerBusyError, 2, TRIES),
        (Exception("rowbus.errors.DataLossError: tick 3"), errors.DataLossError, None, None),
        (Exception("rowbus.errors.LogNotFoundError: no log"), errors.LogNotFoundError, None, None),
        (Exception("rowbus.errors.PermissionDeniedError: no"), errors.PermissionDeniedError, None, None),
        (named("AnalysisException", "no column\nat"), ConfigurationError, None, None),
        (named("Py4JNetworkError", "Answer from Java side is empty"), StorageError, None, None),
        (named("Py4JError", "An error occurred while calling o59.isActive"), StorageError, None, None),
        (ConnectionRefusedError(111, "Connection refused"), StorageError, None, None),
    ],
)
def test_each_failure_is_begun_again_as_long_as_it_may_pass(
    error: Exception, kind: type[RowbusError], again: int | None, last: int | None
) -> None:
    found = explain(error)
    assert type(found) is kind
    failures = [each for each in range(1, 40) if pause_before(found, Failures(each, each)) is not None]
    assert failures == ([] if again is None else list(range(again, (last or 39) + 1)))


@every(
    "error",
    [
        named("Py4JNetworkError", "An error occurred while trying to connect to the Java server"),
        named("Py4JError", "An error occurred while calling o59.awaitTermination\n"),
        ConnectionResetError(104, "Connection reset by peer"),
    ],
)
def test_the_end_of_java_is_said_in_one_sentence(error: Exception) -> None:
    assert str(explain(error)) == JAVA_ENDED


def test_what_python_raised_in_a_task_is_said_without_its_stack() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown from the "
        'Python worker: Traceback (most recent call last):\n  File "files.py", line 128, in add\n    write(batch)\n'
        "OSError: [Errno 28] No space left on device\n SQLSTATE: 38000\n\tat org.apache.spark.api.python.Runner.read()"
    )
    assert str(explain(Exception(text))) == "Spark failed: OSError: [Errno 28] No space left on device"
