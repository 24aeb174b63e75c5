"""The benchmarks run, in small, and judge curves by the point that a target is about. Nothing is measured here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import versions
from benchmarks.growth import curves
from benchmarks.growth.curves import Curve, Line, Most, Point, Share
from benchmarks.growth.pictures import draw
from tests.fixtures.places import ROOT

TINY = ("--scale", "0.0001", "--rounds", "1")
WIDE = {**os.environ, "COLUMNS": "200"}
DRAWN = {
    "backlog",
    "beside",
    "bodies",
    "consumers",
    "dead",
    "delayed",
    "due",
    "events",
    "headers",
    "idle",
    "logs",
    "processes",
    "subscribers",
}
"""Beginnings of each curve's pictures."""


def curve(line: Line, *figures: float) -> Curve:
    points = tuple(Point(10**place, figure) for place, figure in enumerate(figures))
    return Curve("backlog", "rate", "messages", line, points)


def judged(line: Line, *figures: float) -> tuple[float, bool]:
    result = curves.judge(curve(line, *figures))
    assert result is not None
    return result.ratio, result.met


def test_a_rate_is_judged_by_its_worst_point_against_the_first() -> None:
    rate = Line("rate", "msg/s", Share(0.9), more_is_better=True)

    assert judged(rate, 100, 80, 120) == (0.8, False)
    assert judged(rate, 100, 95, 120) == (0.95, True)


def test_a_cost_that_doubles_is_half_as_good() -> None:
    assert judged(Line("cost", "ms", Share(0.9)), 2, 4, 1) == (0.5, False)


def test_against_the_best_only_what_comes_after_it_counts() -> None:
    rate = Line("rate", "msg/s", Share(0.85, "best"), more_is_better=True)

    assert judged(rate, 10, 100, 90) == (0.9, True)
    assert judged(rate, 10, 100, 80) == (0.8, False)


def test_a_run_is_judged_by_its_last_point_where_the_target_says_so() -> None:
    rate = Line("rate", "msg/s", Share(0.95, point="last"), more_is_better=True)

    assert judged(rate, 100, 50, 96) == (0.96, True)


def test_a_figure_is_judged_up_to_the_size_that_its_target_is_for() -> None:
    assert judged(Line("cpu", "%", Most(1, up_to=10)), 0.2, 0.9, 5) == (0.9, True)
    assert judged(Line("cpu", "%", Most(1)), 0.2, 0.9, 5) == (5, False)


def test_a_curve_without_a_target_is_not_judged() -> None:
    assert curves.judge(curve(Line("lateness", "ms"), 1, 2)) is None


def test_sizes_have_two_points_at_any_scale() -> None:
    assert curves.decades(10_000, 1_000_000) == [10_000, 100_000, 1_000_000]
    assert curves.decades(100, 100) == [10, 100]
    assert curves.decades(1, 1_000_000, step=100) == [1, 100, 10_000, 1_000_000]
    assert curves.ladder((1, 10, 50), 0.1) == [1, 10]
    assert curves.ladder((1, 10, 50), 50) == [1, 10, 50]


def test_each_size_is_measured_as_often_as_the_others() -> None:
    asked: list[int] = []

    def measure(size: int) -> dict[str, float]:
        asked.append(size)
        return {"figure": float(len(asked))}

    found = curves.sample([1, 10], measure, rounds=3)

    assert asked == [1, 1, 10, 10, 1, 1, 10]
    assert found == {1: {"figure": 5.0}, 10: {"figure": 4.0}}


def test_a_picture_has_the_figures_and_the_target(tmp_path: Path) -> None:
    drawn = draw(curve(Line("rate", "msg/s", Share(0.9), more_is_better=True), 100, 95), tmp_path)

    assert drawn.name == "backlog-rate.svg"
    assert "figure: 95" in drawn.read_text()
    assert "limit: 90" in drawn.read_text()


def test_two_commits_are_compared_line_by_line_by_the_median_of_the_ratios() -> None:
    base = [{"rate": 10.0, "gone": 1.0}, {"rate": 40.0, "gone": 3.0}, {"rate": 20.0, "gone": 2.0}]
    now = [{"rate": 20.0, "new": 5.0}, {"rate": 40.0, "new": 5.0}, {"rate": 60.0, "new": 5.0}]

    assert versions.rows(base, now) == [
        ("rate", 20.0, 40.0, 2.0),
        ("new", None, 5.0, None),
        ("gone", 2.0, None, None),
    ]


def test_a_package_that_these_benchmarks_cannot_load_is_measured_by_its_own(tmp_path: Path) -> None:
    (tmp_path / "src" / "rowbus").mkdir(parents=True)
    (tmp_path / "src" / "rowbus" / "__init__.py").touch()
    (tmp_path / "same").mkdir()
    (tmp_path / "same" / "src").symlink_to(ROOT / "src")

    assert versions.earlier_version("1234567", tmp_path).benchmarks == tmp_path
    assert versions.earlier_version("1234567", tmp_path / "same").benchmarks == ROOT


@pytest.mark.slow
@pytest.mark.turns("benchmarks", 1)
@pytest.mark.bench
@pytest.mark.timeout(600)
def test_two_commits_stand_side_by_side() -> None:
    done = run("send", "growth-headers", "--base", "HEAD")

    assert "HEAD and now" in done
    for figure in ("Client.send, a second", "Client.send, client CPU", "headers of one's own 200"):
        assert figure in " ".join(done.replace("│", " ").split())


@pytest.mark.slow
@pytest.mark.turns("benchmarks", 1)
@pytest.mark.bench
@pytest.mark.timeout(600)
def test_all_curves_are_measured(tmp_path: Path) -> None:
    done = run("growth", "--pictures", str(tmp_path))

    assert "Ratios" in done
    assert {path.stem.partition("-")[0] for path in tmp_path.iterdir()} == DRAWN


@pytest.mark.slow
@pytest.mark.turns("benchmarks", 1)
@pytest.mark.bench
@pytest.mark.timeout(600)
def test_the_latency_at_rest_is_measured() -> None:
    done = run("latency")

    for figure in ("queue, p50", "queue, p99", "log, p50", "log, p99"):
        assert figure in done


@pytest.mark.slow
@pytest.mark.turns("benchmarks", 1)
@pytest.mark.bench
@pytest.mark.timeout(600)
def test_publishing_and_handlers_are_compared() -> None:
    done = run("publish", "functions", "statement", "handler_send", "failures")

    for figure in (
        "(d2) publish",
        "batches of 100: client CPU of def",
        "8 at a time: client CPU of def",
        "(a8) a send in the handler",
        "delayed retry",
        "error copy",
    ):
        assert figure in done


@pytest.mark.slow
@pytest.mark.turns("benchmarks", 1)
@pytest.mark.bench
@pytest.mark.timeout(600)
def test_what_data_teams_ask_of_spark_is_compared_on_one_server() -> None:
    done = run("spark", "--server", "18")

    for figure in ("(n) source to noop", "(n2) typed rows", "(n3) archive", "(s) one event of a hundred"):
        assert f"{figure}" in done or "JDBC driver is not installed" in done
    for figure in (
        "(p3) 40 changes merged into 2,000 rows",
        "(p4) micro-batch of 100 events merged into Delta",
    ):
        assert figure in done
    assert "PostgreSQL 15" not in done


@pytest.mark.slow
@pytest.mark.turns("benchmarks", 1)
@pytest.mark.bench
@pytest.mark.timeout(120)
def test_a_server_that_is_not_here_is_said_to_be_missing() -> None:
    assert "not run: there is no PostgreSQL 14 here" in run("spark_lake_batch", "--server", "14")


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks", *arguments, *TINY]
    done = subprocess.run(command, cwd=ROOT, env=WIDE, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr  # 1: a target is missed, as may be here
    assert "Traceback" not in done.stderr
    return done.stdout
