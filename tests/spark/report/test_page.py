"""The page shows what messages say and does nothing that they say."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rowbus.spark.pipelines.report import text as report_text
from rowbus.spark.pipelines.report.charts import environment
from rowbus.spark.pipelines.report.result import FlowReport, table_of
from rowbus.spark.pipelines.report.text import MEANINGS
from tests.fixtures.every import every
from tests.spark.report.samples import HOSTILE, MADE_AT, hostile_report, sample_report

VOID = {"meta", "br"}
HARMLESS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "main",
        "section",
        "footer",
        "h1",
        "h2",
        "h3",
        "p",
    ),
    *("ul", "li", "b", "i", "span", "strong", "div", "code", "pre", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td", "svg", "g", "path", "line", "text"),
}
TITLES = [
    *("Throughput", "Latency", "Failures", "Delayed messages", "Waiting", "Events"),
    *("From event to tick", "Logs and consumers"),
]
FORBIDDEN = {"href", "src", "style", "action", "xlink:href"}


class Reader(HTMLParser):
    """Reads a page, and complains of what is not closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_what_messages_say_is_text_wherever_it_is_shown() -> None:
    page = hostile_report().page()
    read = Reader(page)
    names = {name for name, _ in read.attributes}

    assert set(read.tags) <= HARMLESS
    assert not [name for name in names if name.startswith("on") or name in FORBIDDEN]
    assert "".join(read.text).count(HOSTILE) >= 20


def test_the_page_forbids_itself_scripts_and_requests() -> None:
    read = Reader(sample_report().page())

    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in read.attributes
    assert "script" not in read.tags
    assert "url(" not in sample_report().page()


def test_characters_that_hide_or_reorder_are_shown_as_such() -> None:
    template = environment().from_string("<p>{{ text }}</p>")

    assert template.render(text="a\u202eb\x00c\u200b") == "<p>a\\u202eb\\x00c\\u200b</p>"


def test_markup_is_only_what_a_template_says() -> None:
    template = environment().from_string('<p title="{{ title }}"><b>{{ inner }}</b>{{ outer }}</p>')

    assert template.render(title='"><script>', inner="<i>", outer="<b>") == (
        '<p title="&#34;&gt;&lt;script&gt;"><b>&lt;i&gt;</b>&lt;b&gt;</p>'
    )


def test_the_same_report_is_the_same_page() -> None:
    assert sample_report().page() == sample_report().page()


def test_every_table_of_a_report_has_its_section() -> None:
    text = "".join(Reader(sample_report().page()).text)

    for title in TITLES:
        assert title in text


@every("name", sorted(MEANINGS.keys() - {"overview"}))
def test_the_page_and_the_text_do_without_any_of_the_tables(name: str) -> None:
    report = sample_report()
    fewer = {key: table for key, table in report.tables.items() if key != name}
    without = FlowReport(MADE_AT, ["x"], fewer)

    Reader(without.page())
    report_text.tables(without)


def test_a_report_on_nothing_is_a_page_that_says_so() -> None:
    overview = pa.Table.from_pylist(
        [{"messages": 0, "events": 0, "messages_from": None, "messages_to": None}]
    )
    report = FlowReport(MADE_AT, ["queue audit"], {"overview": overview}, since=MADE_AT)

    assert "There is neither a message nor an event in the time asked for." in "".join(
        Reader(report.page()).text
    )


def test_the_files_hold_the_tables(tmp_path: Path) -> None:
    report = sample_report()

    page, *files = report.write(tmp_path / "new" / "flow")

    assert page.read_text(encoding="utf-8") == report.page()
    assert len(files) == 3 * len(report.tables)
    for name in report.tables:
        rows = report.rows(name)
        assert pq.read_table(tmp_path / "new" / "flow" / f"{name}.parquet").to_pylist() == rows
        objects = json.loads((tmp_path / "new" / "flow" / f"{name}.json").read_text(encoding="utf-8"))
        assert [row.keys() for row in objects] == [row.keys() for row in rows]
        with (tmp_path / "new" / "flow" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            assert len(list(csv.DictReader(file))) == len(rows)


def test_a_table_that_is_gone_leaves_no_file_of_an_earlier_report(tmp_path: Path) -> None:
    report = sample_report()
    report.write(tmp_path)
    kept = {"overview": report.tables["overview"]}
    (tmp_path / "mine.csv").touch()

    FlowReport(MADE_AT, [], kept).write(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {
        "report.html", "overview.csv", "overview.json", "overview.parquet", "mine.csv",
    }  # fmt: skip


def test_a_spreadsheet_takes_no_message_for_a_formula(tmp_path: Path) -> None:
    (row,) = sample_report().rows("failures")
    harmful = row | {"exception": '=HYPERLINK("http://x")', "message_types": ["@a", "b"], "messages": -1}

    FlowReport(MADE_AT, [], {"failures": pa.Table.from_pylist([harmful])}).write(tmp_path)

    with (tmp_path / "failures.csv").open(encoding="utf-8", newline="") as file:
        (read,) = csv.DictReader(file)
    assert (read["exception"], read["message_types"]) == ('\'=HYPERLINK("http://x")', "'@a; b")
    assert read["messages"] == "-1"


def test_the_terminal_shows_what_the_tables_say() -> None:
    shown = {table.title: table for table in report_text.tables(sample_report())}

    assert tuple(shown["Latency"].rows[0][:3]) == ("queueing", "Shop.PlaceOrder", "Sales")
    for table in shown.values():
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_rows_of_the_database_layer_become_seconds() -> None:
    report = sample_report()

    assert report.rows("consumers")[0]["lag"] == 2.5
    assert table_of([]).num_rows == 0
    assert datetime.now(UTC) > MADE_AT
