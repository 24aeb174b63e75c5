"""Arguments as people type them, and messages as they are shown to people."""

from __future__ import annotations

from datetime import timedelta

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from rowbus.cli.queue.send import header, time_span
from rowbus.errors.strangers import printable_lines
from rowbus.messages.headers import Header
from rowbus.messages.message import read_body, read_headers, short_type, time_sent
from tests.fixtures.every import every


@every(
    "text, span",
    [
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("1.5 h", timedelta(minutes=90)),
        ("5m", timedelta(minutes=5)),
        ("2d", timedelta(days=2)),
    ],
)
def test_a_span_of_time_is_read_as_people_type_it(text: str, span: timedelta) -> None:
    assert time_span(text) == span


@every("text", ["", "30", "s", "-1s", "1w", "99999999999999d", "1e3s"])
def test_other_text_is_no_span_of_time(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        time_span(text)


def test_a_header_is_split_at_the_first_equals_sign() -> None:
    assert header("a=b=c") == ("a", "b=c")
    assert header("a=") == ("a", "")
    for text in ("a", "=b"):
        with pytest.raises(typer.BadParameter):
            header(text)


@every(
    "body, text, encoding",
    [
        (None, None, "none"),
        (b"", "", "utf-8"),
        ("zażółć".encode(), "zażółć", "utf-8"),
        (b"\xef\xbb\xbf{}", "{}", "utf-8"),
        ("ż".encode("utf-16"), "ż", "utf-16-le"),
        (b"\xfe\xff\x01\x7c", "ż", "utf-16-be"),
        (b"\xff", "ff", "hex"),
        (b"a\x00b", "610062", "hex"),
    ],
)
def test_a_body_is_text_where_it_is_text(body: bytes | None, text: str | None, encoding: str) -> None:
    assert read_body(body) == (text, encoding)


@given(st.binary())
def test_every_body_can_be_shown(body: bytes) -> None:
    assert read_body(body).text is not None


@given(st.text())
def test_shown_text_holds_nothing_that_controls_a_terminal(text: str) -> None:
    shown = printable_lines(text)

    assert all(letter.isprintable() or letter in "\n\t" for letter in shown)
    assert shown == text or not text.isprintable()


def test_headers_that_nobody_can_read_are_none() -> None:
    assert read_headers("[") is None
    assert read_headers("") == {}
    assert time_sent(None) is None
    assert time_sent({Header.TIME_SENT: "yesterday"}) is None
    assert short_type(None) == ""


def test_the_type_shown_is_the_most_concrete_one_without_its_assembly() -> None:
    assert short_type({Header.ENCLOSED_MESSAGE_TYPES: "Shop.A, Shop, Version=1;Shop.B"}) == "Shop.A"
