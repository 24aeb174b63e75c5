"""The history: noted once a minute by whoever is first, added up to hours, drawn, forgotten; and told by endpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

import rowbus
from rowbus.database.backends import addresses_of, open_database
from rowbus.messages.address import QueueAddress
from rowbus.transport.history import teller
from rowbus.transport.history.table import HOURS_KEPT, MINUTES_KEPT, Series, Span
from rowbus.transport.history.teller import SHORTEST, STEP, STEPS, quantile, step_of
from rowbus.transport.queues.shape import QueueShape
from rowbus.web.charts import RANGES, Chart, Line, sparkline
from rowbus.web.sampling.sampler import MOST, QUEUE, Recorder, points_of
from rowbus.web.sampling.snapshot import Counters, QueueFigures, Snapshot
from rowbus.web.settings import WebSettings
from tests.conformance.transport import eventually
from tests.fixtures.command_line import as_role
from tests.fixtures.every import every
from tests.web.conftest import browser, site_of
from tests.web.failures import text_of
from tests.web.shop import HOSTILE, LOG, SALES, Shop

if TYPE_CHECKING:
    from tests.fixtures.command_line import Ask, CommandLine

HAS_SHOP = True  # in `database`

NAME = {"name": str(SALES)}
NOTED = 'select minutes, depth, entered, taken from "Rowbus.History" where name = %s order by minutes, at'


@rowbus.command("Shop.Place")
@dataclass
class Place:
    fails: bool = False


class Page:
    """A page's recorder, and a clock that goes a minute at a time."""

    def __init__(self, dsn: str, *, writes: bool = True) -> None:
        self.recorder = Recorder(addresses_of(dsn), writes=writes)
        self._database = open_database(dsn)
        self.now = 0.0

    def note(self, depth: int, entered: int, taken: int) -> None:
        """Let a minute pass, and note how Sales stands and what was ever counted of it."""
        self.now += 60
        assert self.recorder.is_due(self.now)
        with self._database.session() as session:
            self.recorder.take(session, seen(depth, entered, taken), self.now)
        assert not self.recorder.is_due(self.now + 1)


def seen(depth: int, entered: int, taken: int) -> Snapshot:
    shape = QueueShape(SALES, (), (), None)
    counted = Counters(entered, taken, depth, may_delete=True)
    return Snapshot(queues=(QueueFigures(shape, depth, counted=counted),))


def pass_a_minute(ask: Ask) -> None:
    """Make the minutes that were noted one older."""
    ask("""update "Rowbus.History" set at = at - interval '1 minute' where minutes = 1""")


async def test_minutes_are_noted_and_added_up_to_an_hour_and_outlive_the_page(
    database: str, ask: Ask
) -> None:
    first = Page(database)
    first.note(5, 100, 90)
    assert first.recorder.obstacle.startswith("None was noted yet")
    first.note(7, 160, 90)
    pass_a_minute(ask)
    first.note(2, 190, 150)

    assert ask(NOTED, (str(SALES),)) == [(1, 7, 60, 0), (1, 2, 30, 60), (60, 7, 90, 60)]
    async with browser(database) as client:
        shown = {
            path: text_of((await client.get(path, params=params)).text)
            for path, params in (
                ("/", {}),
                ("/queue", NAME),
                ("/endpoint", NAME),
                ("/queue#days", {**NAME, "span": "days"}),
            )
        }
    for path, text in shown.items():
        assert "Waiting now 7, at most 7" if "days" in path else "Waiting now 2, at most 7" in text, path
    assert "in 0.5, at most 1" in shown["/queue"]
    assert "out 1, at most 1" in shown["/queue"]
    assert "in 0.025, at most 0.025" in shown["/queue#days"]


def test_of_several_pages_the_first_notes_a_minute(database: str, ask: Ask) -> None:
    one, other = Page(database), Page(database)
    for page, depth in ((one, 5), (other, 6)):
        page.note(depth, 0, 0)
    for page, depth in ((other, 6), (one, 5)):
        page.note(depth, 10, 10)

    assert ask(NOTED, (str(SALES),)) == [(1, 6, 10, 10), (60, 6, 10, 10)]


def test_counters_that_were_reset_are_a_gap_and_no_minute_is_longer_than_one(database: str, ask: Ask) -> None:
    page = Page(database)
    page.note(0, 50, 50)
    page.note(1, 3, 2)
    pass_a_minute(ask)
    page.now += 60  # an outage
    page.note(1, 900, 900)
    page.note(1, 901, 902)

    assert ask(NOTED, (str(SALES),)) == [(1, 1, None, None), (1, 1, 1, 2), (60, 1, 1, 2)]


def test_what_is_too_old_is_forgotten_and_not_shown(database: str, ask: Ask) -> None:
    page = Page(database)
    page.note(1, 0, 0)
    page.note(2, 1, 1)
    old = 'insert into "Rowbus.History" (kind, name, minutes, at, depth) values (%s, %s, %s, now() - %s, 9)'
    for minutes, kept in ((1, timedelta(minutes=MINUTES_KEPT)), (60, timedelta(hours=HOURS_KEPT))):
        ask(old, (QUEUE, str(SALES), minutes, kept + timedelta(minutes=2)))
    with open_database(database).session() as session:
        for span in Span:
            found, _ = page.recorder.read(session, [str(SALES)], span)
            points = found[Series(QUEUE, str(SALES))]
            assert len(points) == span.points
            assert [point and point.depth for point in points] == [None] * (span.points - 1) + [2]

    Page(database).note(1, 0, 0)
    again = Page(database)
    again.note(1, 0, 0)
    again.note(1, 0, 0)

    assert 9 not in {depth for _, depth, *_ in ask(NOTED, (str(SALES),))}


def test_a_page_that_only_shows_and_one_that_is_told_not_to_note_nothing(database: str, ask: Ask) -> None:
    page = Page(database, writes=False)
    page.note(1, 0, 0)
    page.note(2, 1, 1)

    assert ask("""select to_regclass('"Rowbus.History"')""") == [(None,)]


@pytest.mark.one_version
@pytest.mark.parametrize(
    "settings", [WebSettings(read_only=True), WebSettings(history=False), WebSettings()], ids=repr
)
async def test_whether_a_page_notes_is_a_setting(database: str, settings: WebSettings) -> None:
    async with browser(database, settings) as client:
        recorder = site_of(client).sampler.recorder

    assert recorder is not None
    assert recorder.writes == (settings == WebSettings())


@pytest.mark.one_version
def test_a_role_that_may_not_note_is_told_the_grant_and_notes_with_it(
    database: str, ask: Ask, role: str, rowbus: CommandLine
) -> None:
    ask("revoke create on schema public from public")
    page = Page(as_role(database, role))
    page.note(1, 0, 0)
    page.note(2, 1, 1)
    assert "permission denied" in page.recorder.obstacle
    assert "rowbus schema grants --web --role" in page.recorder.obstacle

    ask(rowbus("schema", "grants", "--web", "--role", role).stdout)
    page.note(3, 2, 2)

    assert page.recorder.obstacle == ""
    assert ask(NOTED, (str(SALES),)) == [(1, 3, 1, 1), (60, 3, 1, 1)]


async def test_consumers_of_a_log_are_drawn(database: str, ask: Ask) -> None:
    shop = Shop(database)
    shop.tick()
    shop.append(("order", "1"))
    page = Page(database)
    page.note(1, 0, 0)
    async with browser(database) as client:
        await client.get("/")
        snapshot = site_of(client).sampler.snapshot
        with open_database(database).session() as session:
            page.recorder.take(session, snapshot, 120.0)
        shown = text_of((await client.get("/logs/log", params={"log": LOG})).text)
    async with browser(database) as client:
        overview = text_of((await client.get("/")).text)

    assert "Lag of revenue now" in shown
    assert "Events before revenue now" in shown
    assert "Failed messages" in overview


@every(
    "drawn", [Chart(f"Lag of {HOSTILE}", [Line("now", [1.0])], str).svg(RANGES[0]), sparkline([1.0], HOSTILE)]
)
def test_a_name_in_a_chart_is_text(drawn: str) -> None:
    assert "<script>" not in drawn
    assert not {"\u202e", "\x1b"} & set(drawn)


def test_of_very_many_queues_those_with_most_are_noted() -> None:
    queues = tuple(
        QueueFigures(QueueShape(QueueAddress("public", f"Q{number}"), (), (), None), number)
        for number in range(MOST + 10)
    )

    found = points_of(Snapshot(queues=queues), {})

    assert sum(series.kind == QUEUE for series in found) == MOST
    assert Series(QUEUE, str(queues[0].address)) not in found
    assert Series(QUEUE, str(queues[-1].address)) in found


def test_durations_are_counted_by_steps_and_read_off_within_one() -> None:
    for seconds in (0.0, SHORTEST, 0.0015, 0.04, 1.0, 59.9, 7000.0, 10.0**9):
        counts = [0] * STEPS
        counts[step_of(seconds)] += 1
        read_off = quantile(counts, 0.95)
        assert read_off is not None
        if SHORTEST < seconds < 6000:
            assert seconds * (1 - 1e-9) <= read_off <= seconds * STEP * (1 + 1e-9)
    assert quantile([0] * STEPS, 0.5) is None
    assert quantile([95, 0, 5], 0.95) == SHORTEST
    assert quantile([94, 0, 6], 0.95) == SHORTEST * STEP**2


async def test_an_outage_of_telling_is_said_once_and_ends_nothing(
    database: str, ask: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(teller, "PERIOD", 0.01)
    ask('create table "Rowbus.History" (kind text)')
    sales = rowbus.Endpoint("Sales", database=database)
    handled = list[Place]()

    @sales.handler
    async def place(message: Place) -> None:
        handled.append(message)

    async with sales:
        for count in (1, 2):
            with psycopg.connect(database) as connection:
                rowbus.Client(connection).send("Sales", Place())
            await eventually(lambda count=count: len(handled) == count)
            await eventually(lambda: "Could not tell" in caplog.text)

    assert [one.levelname for one in caplog.records if "Could not tell" in one.message] == ["WARNING"]


async def test_endpoints_tell_how_long_handling_takes_and_how_often_it_fails(
    database: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teller, "PERIOD", 0.05)
    Page(database).note(0, 0, 0)
    page = Page(database)
    page.note(0, 0, 0)
    page.note(0, 0, 0)
    sales = rowbus.Endpoint(
        "Sales", database=database, recoverability=rowbus.Recoverability(immediate=1, delayed=0)
    )

    @sales.handler
    async def place(message: Place) -> None:
        if message.fails:
            raise ValueError

    with psycopg.connect(database) as connection:
        for fails in (False, False, True):
            rowbus.Client(connection).send("Sales", Place(fails))
    summed = """
        select name, minutes, sum(failed), sum((select sum(count) from unnest(durations) as all_ (count)))
        from "Rowbus.History" where kind = 'handlers' group by name, minutes order by name, minutes
    """
    async with sales:
        expected = [(name, minutes, 2, 2) for name in ("", str(SALES)) for minutes in (1, 60)]
        await eventually(lambda: ask(summed) == expected)
    async with browser(database) as client:
        shown = text_of((await client.get("/queue", params=NAME)).text)

    assert re.search(r"Handling took p50 [\d.]+ ms", shown), "it did nothing"
    assert "p95" in shown
    assert "Attempts that failed now 2" in shown
